"""How anything is shown: pictures, widgets, coloured code."""
