{% extends "common.h" %}
{% block declarations %}
/*
 * {{ function.kernel | comment }}, over a grid of {{ function.grid | comment }}.
 *
{% for name, promise in promises %}
 *   {{ name }}: {{ promise }}
{% endfor %}
 * Constants: {{ constants | comment }}.
 * {{ function.options }};
 * {{ function.needs }}.
 * Returns the driver's error, or CUDA_ERROR_INVALID_VALUE where a promise is broken or the grid is too large,
 * negative, or divided by 0.
 * A grid with a 0 in it launches nothing and is no error.
 */
// tt-linker: {{ linker }}
{{ function.prototype }};
{%- endblock %}
{% block loading %}
The function above loads by itself, at its first call.
{%- endblock %}
