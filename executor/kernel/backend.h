/* backend.h - what a backend is: a target that can also run. The CPU is one; a GPU is another behind the same table.
 *
 * A backend adapts a model to itself before the training graph is built (layouts, packed weights, reorders as operators),
 * prepares a call per node while it is built (so workspace and support are part of the graph), and runs the calls. All memory a
 * call touches is given to it; a backend keeps none of its own.
 *
 * A backend is an object: what it keeps between calls (an open device, streams, settings) is its `context`, so that one process
 * can have several, for several devices. Every function takes the backend it belongs to first. Kernels do not: they run on the
 * backend that their thread uses, as CUDA's own calls run on the device that is set; mp_call_prepare and mp_call_run see to it.
 */
#pragma once

#include "estimator/training/target.h"
#include "estimator/training/training.h"
#include "executor/kernel/kernel.h"
#include "executor/kernel/optimizer.h"
#include "memplan/backend.h"

/* What the user may decide about how a backend computes. */
typedef struct mp_backend_settings {
    bool tf32;               /* products of float32 may round their factors to 10 bits of mantissa */
    bool fast;               /* results may differ from run to run in their last bits */
    int64_t workspace_limit; /* bytes that one call of a library may ask for */
} mp_backend_settings;
#define MP_BACKEND_SETTINGS ((mp_backend_settings){.workspace_limit = INT64_C(256) << 20})

/* The memory of a device, now. */
typedef struct mp_backend_memory {
    int64_t total_bytes, free_bytes;
    int64_t process_bytes; /* what this process holds of it, all included; -1: the system does not say */
} mp_backend_memory;

struct mp_backend {
    const char *name;          /* "cpu", "cuda" */
    int64_t alignment;         /* of every storage */
    bool is_host;              /* its memory is the program's own */
    bool gives_mask_gradients; /* its attention gives what is added to the scores a gradient */
    void *context;             /* what it keeps, of its own; NULL: nothing */

    /* What results and workspace depend on; part of the target's name if not 0. */
    int (*threads)(const mp_backend *self);
    /* From now on kernels that this thread prepares and runs are this backend's. NULL: its kernels need not know. */
    void (*use)(const mp_backend *self);

    /* The profile whose roofline gives seconds where nothing was measured: of the machine's own device, if it is known. */
    const mp_device *(*device)(const mp_backend *self);
    /* Makes the device ready to run; before anything but adapt, kernel, and the preparing of calls. Again is fine.
     * MP_UNSUPPORTED: this machine has none; one sentence says what it lacks. */
    mp_status (*open)(const mp_backend *self, mp_error *err);
    /* Before a program is built, which keeps what it was built with. NULL: there is nothing to decide. */
    void (*settle)(const mp_backend *self, const mp_backend_settings *settings);
    /* Releases the backend, and its device if that is open; nothing of it may be in use. NULL: it is the program's own. */
    void (*close)(mp_backend *self);
    /* Of the open device. NULL: it is the host's memory. */
    mp_status (*memory)(const mp_backend *self, mp_backend_memory *now, mp_error *err);

    /* Chooses layouts, packs weights, and inserts Reorder operators where layouts meet. The model is inferred, simplified and
     * has its loss; it stays sorted. */
    mp_status (*adapt)(const mp_backend *self, mp_model *model, mp_dtype dtype, mp_error *err);
    const mp_kernel *(*kernel)(const mp_backend *self, const mp_operator *op); /* NULL: none */
    /* The algorithms to choose from for a node, as the settings permit them, the backend's own choice first; n 0: there is one
     * way only. A call is prepared with one by x->algorithm: MP_UNSUPPORTED where this machine has none of that name. NULL:
     * there is one way for every node. */
    mp_status (*algorithms)(const mp_backend *self, const mp_operands *x, mp_algorithms *out, mp_error *err);
    /* Around the steps, in the thread that runs them. On the CPU, numbers too small to be normal become zero: computing with
     * them is a hundred times slower. */
    void (*enter)(const mp_backend *self);
    void (*leave)(const mp_backend *self);
    /* A pass through the network starts, and nothing of the one before is still to run: its random numbers are drawn by these,
     * and its updates have these factors (NULL: it has none). */
    void (*begin)(const mp_backend *self, uint64_t seed, uint32_t step, const mp_update_factors *factors);
    /* What a pass enqueues, recorded once and then replayed as often as one likes, each time with the values of the begin
     * before it. Between record_begin and record_end nothing runs, and of the backend only calls, add, copy, update, clip and
     * the side stream are used. record_end ends the recording, also where something failed in between; *recording is released
     * with discard. NULL: it cannot. */
    mp_status (*record_begin)(const mp_backend *self, mp_error *err);
    mp_status (*record_end)(const mp_backend *self, void **recording, mp_error *err);
    mp_status (*replay)(const mp_backend *self, void *recording, mp_error *err);
    void (*discard)(const mp_backend *self, void *recording);
    /* Until what was enqueued has run. MP_IO: the device has failed. */
    mp_status (*wait)(const mp_backend *self, mp_error *err);
    /* Times of the device itself: note_time(k) notes when what was enqueued on the main stream before has run, seconds_between
     * waits for both of two notes and says what lies between. Notes count up from 0; a number noted again forgets the time
     * before. Not while recording. NULL, both: the host's clock has to do. MP_IO: the device has failed; MP_NOMEM. */
    mp_status (*note_time)(const mp_backend *self, int k, mp_error *err);
    mp_status (*seconds_between)(const mp_backend *self, int from, int to, double *seconds, mp_error *err);
    /* The side stream; NULL: there is none, and what would run there runs in order. Work that is enqueued between side_begin
     * and side_end goes there, and starts after all work enqueued before. side_wait(m): later work on the main stream waits
     * until all side work up to side_end(m) is done. Marks count up from 0 within a pass, and each is waited for before the
     * pass ends. Also while recording. MP_IO: the device has failed. */
    mp_status (*side_begin)(const mp_backend *self, mp_error *err);
    mp_status (*side_end)(const mp_backend *self, int mark, mp_error *err);
    mp_status (*side_wait)(const mp_backend *self, int mark, mp_error *err);
    /* to[k] += from[k] over n elements of this type; what is added with where a kernel does not do it itself. */
    void (*add)(const mp_backend *self, mp_dtype dtype, int64_t n, const void *from, void *to);
    /* One update of n parameters, all in one go; the clipping factor over all gradients, with a workspace of
     * norm_workspace_bytes(elements of the largest). */
    void (*update)(const mp_backend *self, mp_update *updates, size_t n, const mp_update_factors *factors);
    int64_t (*norm_workspace_bytes)(const mp_backend *self, int64_t n_elements);
    void (*clip)(const mp_backend *self, const mp_update *gradients, size_t n, double clip_norm, void *workspace,
                 float *factor);

    /* Memory where the calls run. NULL: there is none left. */
    void *(*allocate)(const mp_backend *self, int64_t bytes);
    void (*release)(const mp_backend *self, void *memory, int64_t bytes);
    void (*fill)(const mp_backend *self, void *memory, unsigned char byte, int64_t bytes);
    void (*copy)(const mp_backend *self, void *to, const void *from, int64_t bytes); /* within it */
    /* Up to the last byte that is another. */
    int64_t (*touched)(const mp_backend *self, const void *memory, unsigned char byte, int64_t bytes);
    /* Between plain arrays of the host and arrays there, of any layout; FLOAT and BFLOAT16 are converted. */
    mp_status (*upload)(const mp_backend *self, const mp_array *host, const mp_array *there, mp_error *err);
    mp_status (*download)(const mp_backend *self, const mp_array *there, const mp_array *host, mp_error *err);
    /* The next batch's way, beside what runs; NULL, all four: the memory is the program's own. bring is called by a thread of
     * its own and waits until the bytes lie in `landing`, memory of allocate, from `pinned`, memory of pin (NULL: there is none
     * left); it starts when all that was to land before has left. land enqueues their copy to where they are read, on the main
     * stream; not while recording. MP_IO: the device has failed. */
    void *(*pin)(const mp_backend *self, int64_t bytes);
    void (*unpin)(const mp_backend *self, void *pinned);
    mp_status (*bring)(const mp_backend *self, void *landing, const void *pinned, int64_t bytes, mp_error *err);
    mp_status (*land)(const mp_backend *self, void *to, const void *landing, int64_t bytes, mp_error *err);
};

/* The symbol of a module, mp_module_backend: a new backend for the device of this number, which nothing has been done with yet.
 * `host`: the CPU's backend, which converts arrays in the program's memory for the module, and outlives it. Released with
 * `close`. NULL: out of memory. */
typedef mp_backend *mp_module_entry(const mp_backend *host, int ordinal);
