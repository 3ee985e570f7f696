{{ first_line }}
{{ manifest_line }}
#ifndef COURSE_AOT_{{ name }}_H
#define COURSE_AOT_{{ name }}_H

#include <cuda.h>
#include <stdint.h>

#ifdef __cplusplus
extern "C" {
#endif

{% block declarations %}{% endblock %}


/*
 * May be called in any order, repeatedly and by any thread; unload while no launch is under way.
 * {% block loading %}{% endblock %}

 */
CUresult load_{{ name }}(void);
CUresult unload_{{ name }}(void);

#ifdef __cplusplus
}
#endif

#endif
