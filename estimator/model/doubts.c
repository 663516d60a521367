/* doubts.c - counts weights for which an ONNX file does not state whether they are trained. */
#include "estimator/model/doubts.h"

#include "estimator/model/model.h"

enum { NAMES_MAX = 3 };

mp_status mp_model_doubt(mp_model *model, mp_doubt_kind kind, const char *name, int64_t elements, mp_error *err)
{
    mp_doubt *doubt = &model->doubts[kind];
    const int n = doubt->n++;
    if (!mp_add(doubt->elements, elements, &doubt->elements)) doubt->elements = INT64_MAX;
    if (n > NAMES_MAX) return MP_OK;
    doubt->names = n == 0           ? mp_pool_format(model->pool, "%s", name)
                   : n == NAMES_MAX ? mp_pool_format(model->pool, "%s, ...", doubt->names)
                                    : mp_pool_format(model->pool, "%s, %s", doubt->names, name);
    MP_ENSURE(doubt->names, err, MP_NOMEM, "no memory for the names of weights");
    return MP_OK;
}
