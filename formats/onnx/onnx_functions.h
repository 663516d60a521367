/* onnx_functions.h - the functions that an ONNX file defines, and the versions of operator sets. Private to formats/. */
#pragma once

#include "estimator/base/names.h"
#include "estimator/model/model.h"
#include "formats/onnx/scan/onnx_budget.h"
#include "onnx.pb-c.h"

typedef struct mp_onnx_function {
    const Onnx__FunctionProto *proto;
    size_t n_defaults;
    Onnx__AttributeProto **defaults; /* values of attributes that a call leaves out */
} mp_onnx_function;

typedef struct mp_onnx_functions {
    size_t n;
    mp_onnx_function *list;
    mp_names *index; /* key -> place in the list */
    mp_pool *pool;
    mp_onnx_budget *budget;
} mp_onnx_functions;

/* Collects the file's functions. MP_PARSE: one without a name, or two of the same name; MP_NOMEM. On MP_OK released with
 * mp_onnx_functions_free, before the file. */
mp_status mp_onnx_functions_read(const Onnx__ModelProto *file, mp_onnx_budget *budget, mp_onnx_functions *out, mp_error *err);
void mp_onnx_functions_free(mp_onnx_functions *functions); /* zeroed is fine */

/* The function that the node calls; *found is NULL if it is none of the file's. MP_NOMEM. */
mp_status mp_onnx_function_of(const mp_onnx_functions *functions, const Onnx__NodeProto *node, const mp_onnx_function **found,
                              mp_error *err);

/* "" for the operators of ONNX itself, which some files call "ai.onnx". Never NULL. */
const char *mp_onnx_domain(const char *domain);
/* Checks that each set is imported in one version, of a sensible number. MP_PARSE. */
mp_status mp_onnx_check_imports(const Onnx__ModelProto *file, mp_error *err);
/* The version in which a domain is imported, 0 if it is not. */
int mp_onnx_version(Onnx__OperatorSetIdProto *const *imports, size_t n, const char *domain);
