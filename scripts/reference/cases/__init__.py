"""The operators, one module for each part of the model: inputs, and the mistakes they are chosen to show."""
