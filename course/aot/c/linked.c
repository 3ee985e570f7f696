{{ first_line }}
#include "{{ header_name }}"

/* The variants. */
{% for function in functions %}
{{ function.prototype }};
CUresult load_{{ function.name }}(void);
CUresult unload_{{ function.name }}(void);
{% endfor %}

{# A function for each algorithm, since an argument may have the public function's name. #}
{% for algorithm in algorithms %}
/* {{ algorithm | string | comment }} */
static CUresult algorithm_{{ loop.index0 }}({{ parameters }}) {
{% for function in algorithm.functions %}
{% set conditions = first.conditions("==", " && ", function.runtime) %}
{% if conditions %}
    if ({{ conditions }})
        return {{ function.name }}({{ first.call(function.passed) }});
{% else %}
    return {{ function.name }}({{ first.call(function.passed) }});
{% endif %}
{% endfor %}
{% if algorithm.functions[-1].hinted %}
    return CUDA_ERROR_INVALID_VALUE;
{% endif %}
}

{% endfor %}
CUresult {{ name }}({{ parameters }}, int algo_id) {
    switch (algo_id) {
{% for algorithm in algorithms %}
        case {{ loop.index0 }}: return algorithm_{{ loop.index0 }}({{ call }});
{% endfor %}
        default: return CUDA_ERROR_INVALID_VALUE;
    }
}

CUresult {{ name }}_default({{ parameters }}) {
    return algorithm_0({{ call }});
}

int {{ name }}_get_num_algos(void) {
    return {{ algorithms | length }};
}

/* Loads every variant: stops at the first that cannot be loaded. */
CUresult load_{{ name }}(void) {
    CUresult result = CUDA_SUCCESS;
{% for function in functions %}
    if (result == CUDA_SUCCESS) result = load_{{ function.name }}();
{% endfor %}
    return result;
}

/* Unloads every variant: goes on after an error, and returns the first. */
CUresult unload_{{ name }}(void) {
    CUresult result = CUDA_SUCCESS;
{% for function in functions %}
    { CUresult one = unload_{{ function.name }}(); if (result == CUDA_SUCCESS) result = one; }
{% endfor %}
    return result;
}
