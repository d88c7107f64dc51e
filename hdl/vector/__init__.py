"""Vector engine: lanes that combine elements, and the control that streams rows through them."""
