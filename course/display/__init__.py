"""How anything is shown: pictures and their shapes, widgets, coloured code. It knows no tool."""
