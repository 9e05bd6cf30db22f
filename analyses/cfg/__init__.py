"""Control flow: the graph, dominators, loops, dataflow, and paths between instructions."""
