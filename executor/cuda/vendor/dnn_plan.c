/* dnn_plan.c - selects the cuDNN engine for a graph: the first engine from cuDNN's heuristics that the settings permit, or the
 * engine with a given name. */
#include "executor/cuda/vendor/dnn_plan.h"

#include <inttypes.h>
#include <stdio.h>
#include <string.h>

#include "estimator/base/memory.h"
#include "executor/cuda/device/device.h"
#include "executor/cuda/device/errors.h"
#include "executor/cuda/vendor/dnn_describe.h"

/* Returns a bit set of cuDNN's numerical notes. An engine with one of these notes is not permitted for the plan's graph and
 * settings. */
static uint32_t forbidden(const mp_dnn_plan *p)
{
    uint32_t notes = 0;
    bool floats =
        true; /* true: no tensor is bfloat16; in graphs with bfloat16 tensors, float tensors are only biases and statistics */
    for (int64_t k = 0; k < p->graph.n_tensors; k++)
        if (p->graph.tensors[k].type == CUDNN_DATA_BFLOAT16) floats = false;
    if (!p->settings.fast)
        notes |= 1u << CUDNN_NUMERICAL_NOTE_NONDETERMINISTIC | 1u << CUDNN_NUMERICAL_NOTE_REDUCED_PRECISION_REDUCTION |
                 1u << CUDNN_NUMERICAL_NOTE_FFT | 1u << CUDNN_NUMERICAL_NOTE_WINOGRAD_TILE_6x6 |
                 1u << CUDNN_NUMERICAL_NOTE_WINOGRAD_TILE_13x13;
    if (floats && !p->settings.tf32)
        notes |= 1u << CUDNN_NUMERICAL_NOTE_TENSOR_CORE | 1u << CUDNN_NUMERICAL_NOTE_DOWN_CONVERT_INPUTS;
    return notes;
}

/* Reads the number and the numerical notes of a configuration's engine, and whether the engine compiles its kernels when it is
 * selected. */
static mp_status read_engine(cudnnBackendDescriptor_t config, uint32_t *notes, bool *compiles, int64_t *number, mp_error *err)
{
    cudnnBackendNumericalNote_t list[CUDNN_NUMERICAL_NOTE_TYPE_COUNT];
    cudnnBackendBehaviorNote_t behavior[CUDNN_BEHAVIOR_NOTE_TYPE_COUNT];
    MP_OWNED_BY(cudnnBackendDestroyDescriptor) cudnnBackendDescriptor_t engine = NULL;
    int64_t n = 0;
    MP_CUDNN(cudnnBackendCreateDescriptor(CUDNN_BACKEND_ENGINE_DESCRIPTOR, &engine), err);
    MP_CUDNN(cudnnBackendGetAttribute(config, CUDNN_ATTR_ENGINECFG_ENGINE, CUDNN_TYPE_BACKEND_DESCRIPTOR, 1, &n, &engine), err);
    MP_CUDNN(cudnnBackendGetAttribute(engine, CUDNN_ATTR_ENGINE_GLOBAL_INDEX, CUDNN_TYPE_INT64, 1, &n, number), err);
    MP_CUDNN(cudnnBackendGetAttribute(engine, CUDNN_ATTR_ENGINE_NUMERICAL_NOTE, CUDNN_TYPE_NUMERICAL_NOTE,
                                      CUDNN_NUMERICAL_NOTE_TYPE_COUNT, &n, list),
             err);
    *notes = 0;
    for (int64_t k = 0; k < n && k < CUDNN_NUMERICAL_NOTE_TYPE_COUNT; k++) *notes |= 1u << list[k];
    MP_CUDNN(cudnnBackendGetAttribute(engine, CUDNN_ATTR_ENGINE_BEHAVIOR_NOTE, CUDNN_TYPE_BEHAVIOR_NOTE,
                                      CUDNN_BEHAVIOR_NOTE_TYPE_COUNT, &n, behavior),
             err);
    *compiles = false;
    for (int64_t k = 0; k < n && k < CUDNN_BEHAVIOR_NOTE_TYPE_COUNT; k++)
        if (behavior[k] == CUDNN_BEHAVIOR_NOTE_RUNTIME_COMPILATION) *compiles = true;
    return MP_OK;
}

static void knobs_free(cudnnBackendDescriptor_t (*knobs)[CUDNN_KNOB_TYPE_COUNTS])
{
    for (int k = 0; k < CUDNN_KNOB_TYPE_COUNTS; k++)
        if ((*knobs)[k]) cudnnBackendDestroyDescriptor((*knobs)[k]);
}

/* Writes the name of a configuration: the engine's number and the value of every knob, "engine 34, 2=5 13=1". These numbers are
 * the same in every process with the same version of cuDNN. */
static mp_status name_config(cudnnBackendDescriptor_t config, int64_t engine, char name[MP_ALGORITHM_NAME], mp_error *err)
{
    MP_CLEARED_BY(knobs_free) cudnnBackendDescriptor_t knobs[CUDNN_KNOB_TYPE_COUNTS] = {NULL};
    int64_t n = 0, given = 0, value;
    cudnnBackendKnobType_t type;
    int length = snprintf(name, MP_ALGORITHM_NAME, "engine %" PRId64, engine);
    for (int k = 0; k < CUDNN_KNOB_TYPE_COUNTS; k++)
        MP_CUDNN(cudnnBackendCreateDescriptor(CUDNN_BACKEND_KNOB_CHOICE_DESCRIPTOR, &knobs[k]), err);
    MP_CUDNN(cudnnBackendGetAttribute(config, CUDNN_ATTR_ENGINECFG_KNOB_CHOICES, CUDNN_TYPE_BACKEND_DESCRIPTOR,
                                      CUDNN_KNOB_TYPE_COUNTS, &n, knobs),
             err);
    for (int64_t k = 0; k < n && k < CUDNN_KNOB_TYPE_COUNTS && length < MP_ALGORITHM_NAME; k++) {
        MP_CUDNN(cudnnBackendGetAttribute(knobs[k], CUDNN_ATTR_KNOB_CHOICE_KNOB_TYPE, CUDNN_TYPE_KNOB_TYPE, 1, &given, &type),
                 err);
        MP_CUDNN(cudnnBackendGetAttribute(knobs[k], CUDNN_ATTR_KNOB_CHOICE_KNOB_VALUE, CUDNN_TYPE_INT64, 1, &given, &value),
                 err);
        length +=
            snprintf(name + length, (size_t)(MP_ALGORITHM_NAME - length), "%s%d=%" PRId64, k ? " " : ", ", (int)type, value);
    }
    return MP_OK;
}

static bool is_listed(const mp_algorithms *list, const char *name)
{
    for (int k = 0; k < list->n; k++)
        if (!strcmp(list->list[k].name, name)) return true;
    return false;
}

/* Creates the execution plan of an engine configuration. *fits is false if cuDNN cannot create the plan, or if the workspace
 * is too large. */
static mp_status try_plan(mp_dnn_plan *p, cudnnBackendDescriptor_t config, bool *fits, mp_error *err)
{
    MP_OWNED_BY(cudnnBackendDestroyDescriptor) cudnnBackendDescriptor_t plan = NULL;
    int64_t n = 0, bytes = 0;
    *fits = false;
    MP_CUDNN(cudnnBackendCreateDescriptor(CUDNN_BACKEND_EXECUTION_PLAN_DESCRIPTOR, &plan), err);
    MP_CUDNN(cudnnBackendSetAttribute(plan, CUDNN_ATTR_EXECUTION_PLAN_ENGINE_CONFIG, CUDNN_TYPE_BACKEND_DESCRIPTOR, 1, &config),
             err);
    MP_CHECK(mp_dnn_set_device(plan, CUDNN_ATTR_EXECUTION_PLAN_HANDLE, CUDNN_ATTR_EXECUTION_PLAN_DEVICEPROP, err));
    if (cudnnBackendFinalize(plan) != CUDNN_STATUS_SUCCESS) return MP_OK;
    MP_CUDNN(cudnnBackendGetAttribute(plan, CUDNN_ATTR_EXECUTION_PLAN_WORKSPACE_SIZE, CUDNN_TYPE_INT64, 1, &n, &bytes), err);
    if (bytes > p->settings.workspace_limit) return MP_OK;
    *fits = true;
    p->workspace_bytes = bytes;
    p->plan = plan;
    plan = NULL;
    return MP_OK;
}

/* Selects the first permitted engine configuration, or the one with the requested name. With `list`, lists all permitted
 * configurations instead of selecting one. */
static mp_status choose(mp_dnn_plan *p, cudnnBackendDescriptor_t *configs, int64_t n, mp_algorithms *list, mp_error *err)
{
    uint32_t never = forbidden(p);
    for (int64_t k = 0; k < n && !p->config && !(list && list->n == MP_ALGORITHMS); k++) {
        uint32_t notes = 0;
        int64_t number = 0;
        bool fits = false, compiles = false;
        char name[MP_ALGORITHM_NAME] = "";
        MP_CHECK(read_engine(configs[k], &notes, &compiles, &number, err));
        if ((compiles && !p->graph.may_compile) || (notes & never)) continue;
        if (list || p->algorithm[0]) MP_CHECK(name_config(configs[k], number, name, err));
        if (list ? is_listed(list, name) : strcmp(name, p->algorithm) != 0) continue;
        MP_CHECK(try_plan(p, configs[k], &fits, err));
        if (!fits) continue;
        if (list) {
            snprintf(list->list[list->n].name, MP_ALGORITHM_NAME, "%s", name);
            list->list[list->n++].is_deterministic = !(notes >> CUDNN_NUMERICAL_NOTE_NONDETERMINISTIC & 1);
            cudnnBackendDestroyDescriptor(p->plan);
            p->plan = NULL;
            continue;
        }
        p->notes = notes;
        p->engine_index = number;
        p->config = configs[k];
        configs[k] = NULL;
    }
    return MP_OK;
}

/* True if cuDNN's last error means that this machine has no driver and therefore cannot compile kernels. */
static bool is_driver_missing(void)
{
    char why[4000] = "";
    cudnnGetLastErrorString(why, sizeof why);
    return strstr(why, "RUNTIME_PREREQUISITE_MISSING") != NULL;
}

typedef struct proposals {
    cudnnBackendDescriptor_t heuristics, *list;
    int64_t n, given; /* n: number of descriptors in `list`; given: the first `given` of them are proposals of the heuristics */
} proposals;

static void proposals_free(proposals *x)
{
    for (int64_t k = 0; x->list && k < x->n; k++)
        if (x->list[k]) cudnnBackendDestroyDescriptor(x->list[k]);
    mp_free(x->list);
    if (x->heuristics) cudnnBackendDestroyDescriptor(x->heuristics);
}

/* Lists the engine configurations that cuDNN's heuristics propose; MP_OK also if there are none. */
static mp_status propose(const mp_dnn_plan *p, cudnnBackendHeurMode_t mode, proposals *out, mp_error *err)
{
    cudnnBackendDescriptor_t graph = p->made[p->n_made - 1];
    MP_CUDNN(cudnnBackendCreateDescriptor(CUDNN_BACKEND_ENGINEHEUR_DESCRIPTOR, &out->heuristics), err);
    MP_CUDNN(cudnnBackendSetAttribute(out->heuristics, CUDNN_ATTR_ENGINEHEUR_OPERATION_GRAPH, CUDNN_TYPE_BACKEND_DESCRIPTOR, 1,
                                      &graph),
             err);
    MP_CUDNN(cudnnBackendSetAttribute(out->heuristics, CUDNN_ATTR_ENGINEHEUR_MODE, CUDNN_TYPE_HEUR_MODE, 1, &mode), err);
    MP_CHECK(mp_dnn_set_device(out->heuristics, -1, CUDNN_ATTR_ENGINEHEUR_DEVICEPROP, err));
    if (cudnnBackendFinalize(out->heuristics) != CUDNN_STATUS_SUCCESS) return MP_OK;
    if (cudnnBackendGetAttribute(out->heuristics, CUDNN_ATTR_ENGINEHEUR_RESULTS, CUDNN_TYPE_BACKEND_DESCRIPTOR, 0, &out->n,
                                 NULL) != CUDNN_STATUS_SUCCESS)
        return MP_OK;
    MP_ENSURE(out->list = mp_alloc((size_t)out->n, sizeof *out->list), err, MP_NOMEM, "out of memory");
    for (int64_t k = 0; k < out->n; k++)
        MP_CUDNN(cudnnBackendCreateDescriptor(CUDNN_BACKEND_ENGINECFG_DESCRIPTOR, &out->list[k]), err);
    return MP_CUDNN_STATUS(cudnnBackendGetAttribute(out->heuristics, CUDNN_ATTR_ENGINEHEUR_RESULTS,
                                                    CUDNN_TYPE_BACKEND_DESCRIPTOR, out->n, &out->given, out->list),
                           err);
}

/* Queries cuDNN's heuristics in `mode`, and selects or lists engine configurations. If the heuristics fail or propose nothing,
 * p->config stays NULL. */
static mp_status consult(mp_dnn_plan *p, cudnnBackendHeurMode_t mode, mp_algorithms *list, mp_error *err)
{
    MP_CLEARED_BY(proposals_free) proposals found = {0};
    const mp_status st = propose(p, mode, &found, err);
    if (!found.given) p->lacks_driver |= is_driver_missing();
    MP_CHECK(st);
    return choose(p, found.list, found.given < found.n ? found.given : found.n, list, err);
}

/* Without a GPU: if cuDNN proposes no engine only because the driver is missing, assumes an engine with the workspace stated
 * in the graph. */
static void assume(mp_dnn_plan *p)
{
    const mp_cuda_device *device;
    if (p->config || !p->graph.may_compile || p->algorithm[0] || !p->lacks_driver || mp_cuda_open(&device, NULL) == MP_OK)
        return;
    p->workspace_bytes = p->graph.assumed_workspace_bytes;
    p->is_assumed = p->workspace_bytes <= p->settings.workspace_limit;
}

mp_status mp_dnn_plan_open(mp_dnn_plan *p, mp_error *err)
{
    MP_CHECK(mp_dnn_describe(p, err));
    MP_CHECK(consult(p, CUDNN_HEUR_MODE_A, NULL, err));
    if (!p->config) MP_CHECK(consult(p, CUDNN_HEUR_MODE_FALLBACK, NULL, err));
    assume(p);
    if (p->is_assumed) return MP_OK;
    MP_ENSURE(p->config || !p->algorithm[0], err, MP_UNSUPPORTED, "cuDNN has no algorithm '%s' for this operation",
              p->algorithm);
    MP_ENSURE(p->config, err, MP_UNSUPPORTED, "cuDNN has no algorithm for this operation within %" PRId64 " bytes of workspace",
              p->settings.workspace_limit);
    return MP_OK;
}

mp_status mp_dnn_plan_list(mp_dnn_plan *p, mp_algorithms *out, mp_error *err)
{
    MP_CHECK(mp_dnn_describe(p, err));
    MP_CHECK(consult(p, CUDNN_HEUR_MODE_A, out, err));
    if (!out->n) MP_CHECK(consult(p, CUDNN_HEUR_MODE_FALLBACK, out, err));
    return MP_OK;
}

void mp_dnn_plan_close(mp_dnn_plan *p)
{
    if (p->plan) cudnnBackendDestroyDescriptor(p->plan);
    if (p->config) cudnnBackendDestroyDescriptor(p->config);
    for (int k = p->n_made - 1; k >= 0; k--) cudnnBackendDestroyDescriptor(p->made[k]);
}
