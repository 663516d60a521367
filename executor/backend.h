/* backend.h - what a backend is: a target that can also run. The CPU is one; a GPU is another behind the same table.
 *
 * A backend adapts a model to itself before the training graph is built (layouts, packed weights, reorders as operators),
 * prepares a call per node while it is built (so workspace and support are part of the graph), and runs the calls. All memory a
 * call touches is given to it; a backend keeps none of its own.
 */
#ifndef EXECUTOR_BACKEND_H
#define EXECUTOR_BACKEND_H

#include "estimator/target.h"
#include "estimator/training.h"
#include "executor/kernel.h"
#include "executor/optimizer.h"

typedef struct mp_backend {
    const char *name;     /* "cpu": also the device profile whose roofline gives seconds where nothing was measured */
    int64_t alignment;    /* of every storage */
    int (*threads)(void); /* what results and workspace depend on; part of the target's name */

    /* Chooses layouts, packs weights, and inserts Reorder operators where layouts meet. The model is inferred, simplified and
     * has its loss; it stays sorted. */
    mp_status (*adapt)(mp_model *model, mp_dtype dtype, mp_error *err);
    const mp_kernel *(*kernel)(const mp_operator *op); /* NULL: none */
    /* Around the steps, in the thread that runs them. On the CPU, numbers too small to be normal become zero: computing with
     * them is a hundred times slower. */
    void (*enter)(void);
    void (*leave)(void);
    mp_add_function add;
    /* One update of n parameters, all in one go; the clipping factor over all gradients, with norm_workspace_bytes(the largest)
     * of room. */
    void (*update)(mp_update *updates, size_t n, const mp_update_factors *factors);
    int64_t (*norm_workspace_bytes)(int64_t n_elements);
    void (*clip)(const mp_update *gradients, size_t n, double clip_norm, void *workspace, float *factor);

    /* Memory where the calls run. NULL: there is none left. */
    void *(*allocate)(int64_t bytes);
    void (*release)(void *memory, int64_t bytes);
    void (*fill)(void *memory, unsigned char byte, int64_t bytes);
    void (*copy)(void *to, const void *from, int64_t bytes);                   /* within it */
    int64_t (*touched)(const void *memory, unsigned char byte, int64_t bytes); /* up to the last byte that is another */
    /* Between plain arrays of the host and arrays there, of any layout; FLOAT and BFLOAT16 are converted. */
    mp_status (*upload)(const mp_array *host, const mp_array *there, mp_error *err);
    mp_status (*download)(const mp_array *there, const mp_array *host, mp_error *err);
} mp_backend;

/* The backend of this name, NULL: none. */
const mp_backend *mp_backend_find(const char *name);

#endif
