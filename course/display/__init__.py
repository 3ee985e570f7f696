"""How anything is shown: pictures and their shapes, widgets, colored code. It knows no tool."""
