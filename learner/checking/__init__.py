"""What a model promises, checked: `bl.check_model(model, data)`."""
