"""PTX in an editor: a Language Server Protocol server. `ptxkit lsp` starts it.

`document` holds the state of an open file; each other module answers one kind of request about it, in offsets into its text, without
knowledge of the protocol; `server` translates.
"""
