"""PTX in an editor: a server of the Language Server Protocol. `ptxkit lsp` starts it.

`document` holds what is known of an open file; each other module answers one kind of question about it, in offsets into its text, and
knows nothing of the protocol; `server` translates.
"""
