"""The exercises of each lesson, as data: what is right and what people get wrong."""
