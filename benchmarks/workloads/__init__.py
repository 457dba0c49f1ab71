"""Kinds of work: small ONNX models of one operator or a short chain, whose shapes are drawn from stated ranges."""
