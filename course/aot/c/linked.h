{% extends "common.h" %}
{% block declarations %}
/*
 * {{ first.kernel | comment }}. algo_id chooses among
{% for algorithm in algorithms %}
 *   {{ loop.index0 }}: {{ algorithm | string | comment }}
{% endfor %}
 * and what the arguments allow, among the variants: the one that relies on the most hints.
 * Returns CUDA_ERROR_INVALID_VALUE for another algo_id and where no variant takes the arguments, or the driver's error.
 */
CUresult {{ name }}({{ parameters }}, int algo_id);

/* With algo_id 0. */
CUresult {{ name }}_default({{ parameters }});

int {{ name }}_get_num_algos(void);
{%- endblock %}
{% block loading %}
Variants load by themselves, each at its first launch.
{%- endblock %}
