"""The accuracy bisector: from wrong numbers to the stage, graph, node and single decision of the compiler that make them."""
