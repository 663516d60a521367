/* value.c - a value is one block of the model's pool behind its header. */
#include "estimator/model/value.h"

#include "estimator/model/model.h"

mp_value *mp_value_new(mp_model *model, int64_t n, bool is_real)
{
    mp_value *value = mp_pool_alloc(model->pool, 1, sizeof *value);
    if (!value || n < 0) return NULL;
    value->n = n;
    value->is_real = is_real;
    if (is_real)
        value->f = mp_pool_alloc(model->pool, (size_t)n, sizeof *value->f);
    else
        value->i = mp_pool_alloc(model->pool, (size_t)n, sizeof *value->i);
    return (is_real ? (void *)value->f : (void *)value->i) ? value : NULL;
}
