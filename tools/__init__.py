"""Programs beside the product: demo, fuzzing, soak tests, and the generator of dashboards and rules."""
