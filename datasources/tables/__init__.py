"""Tables with named columns."""
