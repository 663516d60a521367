/* backend.h - what a backend is: a target that can also run. The CPU is one; a GPU is another with the same interface.
 *
 * A backend adapts a model to itself before the training graph is built (layouts, packed weights, reorders as operators),
 * prepares a call per node while it is built (so workspace and support are part of the graph), and runs the calls. All memory
 * that a call touches is given to it; a backend keeps none of its own.
 *
 * A backend is an object: what it keeps between calls (an open device, streams, settings) is its `context`, so that one
 * process can have several, for several devices. Every function takes its backend as the first argument. Kernels do not:
 * they run on the backend that is set for their thread, as CUDA's own calls run on the device that is set. mp_call_prepare
 * and mp_call_run set it. */
#pragma once

#include "estimator/training/target.h"
#include "estimator/training/training.h"
#include "executor/kernel/kernel.h"
#include "executor/kernel/optimizer.h"
#include "memplan/backend.h"

/* The user's settings of how a backend computes. */
typedef struct mp_backend_settings {
    bool tf32;               /* products of float32 may round their factors to TF32 (10 bits of mantissa) */
    bool fast;               /* true: faster algorithms may be used whose results differ from run to run in their last bits */
    int64_t workspace_limit; /* most bytes of workspace that one call of a library may ask for */
} mp_backend_settings;
#define MP_BACKEND_SETTINGS ((mp_backend_settings){.workspace_limit = INT64_C(256) << 20})

/* The memory of a device at this moment. */
typedef struct mp_backend_memory {
    int64_t total_bytes, free_bytes;
    int64_t process_bytes; /* device memory that this process holds, its context and libraries included; -1: the system does not
                              say */
} mp_backend_memory;

struct mp_backend {
    const char *name;          /* "cpu", "cuda" */
    int64_t alignment;         /* bytes that the offset of every storage is a multiple of */
    bool is_host;              /* true: its memory is the program's own */
    bool gives_mask_gradients; /* its attention computes the gradient of the mask or bias that is added to the scores */
    void *context;             /* the backend's private state; NULL: it has none */

    /* Returns the number of threads, on which results and workspace depend; part of the target's name if not 0. */
    int (*threads)(const mp_backend *self);
    /* Makes this the backend of the kernels that this thread prepares and runs from now on. NULL: its kernels do not depend
     * on it. */
    void (*use)(const mp_backend *self);

    /* Returns the profile whose roofline gives the seconds that were not measured: that of the machine's own device, if it
     * is known. */
    const mp_device *(*device)(const mp_backend *self);
    /* Makes the device ready to run. Needed before all functions but adapt, kernel, and the preparing of calls; may be
     * called again. MP_UNSUPPORTED: this machine has no such device; the message says what it lacks. */
    mp_status (*open)(const mp_backend *self, mp_error *err);
    /* Applies the settings. Called before a program is built; the program keeps them. NULL: it has no settings. */
    void (*settle)(const mp_backend *self, const mp_backend_settings *settings);
    /* Releases the backend and its open device; nothing may use it any more. NULL: the backend is static. */
    void (*close)(mp_backend *self);
    /* Reads the memory of the open device. NULL: the device's memory is the host's. */
    mp_status (*memory)(const mp_backend *self, mp_backend_memory *now, mp_error *err);

    /* Chooses layouts, packs weights, and inserts Reorder operators between different layouts. The model must be inferred,
     * simplified and have its loss; it stays sorted. */
    mp_status (*adapt)(const mp_backend *self, mp_model *model, mp_dtype dtype, mp_error *err);
    const mp_kernel *(*kernel)(const mp_backend *self, const mp_operator *op); /* NULL: the operator has none */
    /* Lists the algorithms of a node that the settings permit, the backend's default first; n 0: there is no choice. A call
     * is prepared with one by x->algorithm: MP_UNSUPPORTED where this machine has none of that name. NULL: no node has a
     * choice. */
    mp_status (*algorithms)(const mp_backend *self, const mp_operands *x, mp_algorithms *out, mp_error *err);
    /* Called before the steps, and leave after them, in the thread that runs them. On the CPU, denormal numbers are then
     * flushed to zero: computing with them is a hundred times slower. */
    void (*enter)(const mp_backend *self);
    void (*leave)(const mp_backend *self);
    /* Begins a pass through the network; nothing of the previous pass may still be to run. Its random numbers are drawn by
     * seed and step, and its updates use these factors (NULL: it has no updates). */
    void (*begin)(const mp_backend *self, uint64_t seed, uint32_t step, const mp_update_factors *factors);
    /* Records what a pass enqueues, to be replayed any number of times, each time with the values of the last begin. Between
     * record_begin and record_end nothing runs, and of the backend only calls, add, copy, update, clip and the side stream
     * may be used. record_end ends the recording, also after a failure; *recording is released with discard. NULL: the
     * backend cannot record. */
    mp_status (*record_begin)(const mp_backend *self, mp_error *err);
    mp_status (*record_end)(const mp_backend *self, void **recording, mp_error *err);
    mp_status (*replay)(const mp_backend *self, void *recording, mp_error *err);
    void (*discard)(const mp_backend *self, void *recording);
    /* Waits until all that was enqueued has run. MP_IO: the device has failed. */
    mp_status (*wait)(const mp_backend *self, mp_error *err);
    /* Tells whether all that was enqueued has run, without waiting. NULL: calls return when they have. MP_IO as wait. */
    mp_status (*has_run)(const mp_backend *self, bool *all, mp_error *err);
    /* Device timestamps: note_time(k) records when the work enqueued so far on the main stream is done; seconds_between
     * waits for two of them and returns the seconds between. Their numbers count up from 0; a number that is used again
     * replaces its timestamp. Not while recording. Both NULL: the host's clock is used instead. MP_IO: the device has
     * failed; MP_NOMEM. */
    mp_status (*note_time)(const mp_backend *self, int k, mp_error *err);
    mp_status (*seconds_between)(const mp_backend *self, int from, int to, double *seconds, mp_error *err);
    /* Side streams, one per channel of a graph but compute; NULL: there are none, updates run in order on the main stream, and
     * the program copies to other tiers itself. Work that is enqueued between side_begin and side_end goes to the channel's
     * stream, and starts after all work enqueued before on the main stream. side_wait(channel, m): later work on the main
     * stream waits until all work there up to side_end(channel, m) is done. Marks rise per channel within a pass;
     * each, or a later one of its channel, is waited for before the pass ends. Allowed while recording, by which time every
     * channel has been used before. MP_IO: the device has failed. MP_NOMEM. */
    mp_status (*side_begin)(const mp_backend *self, int channel, mp_error *err);
    mp_status (*side_end)(const mp_backend *self, int channel, int mark, mp_error *err);
    mp_status (*side_wait)(const mp_backend *self, int channel, int mark, mp_error *err);
    /* Returns the stream on which work is enqueued now, as the vendor's libraries know it. NULL: there are no streams. */
    void *(*stream)(const mp_backend *self);
    /* Adds: to[k] += from[k] for n elements of this type. Used for gradients that a kernel cannot accumulate itself. */
    void (*add)(const mp_backend *self, mp_dtype dtype, int64_t n, const void *from, void *to);
    /* `update` updates n parameters in one call. `clip` computes the clipping factor from the norm of all gradients; its
     * workspace has norm_workspace_bytes(elements of the largest) bytes. */
    void (*update)(const mp_backend *self, mp_update *updates, size_t n, const mp_update_factors *factors);
    int64_t (*norm_workspace_bytes)(const mp_backend *self, int64_t n_elements);
    void (*clip)(const mp_backend *self, const mp_update *gradients, size_t n, double clip_norm, void *workspace,
                 float *factor);
    /* Returns the sum of the squares of all gradients, whose root is that norm. NULL: it is not known on the host in time. */
    double (*squares)(const mp_backend *self, const mp_update *gradients, size_t n, void *workspace);

    /* Allocates memory that the calls can use. NULL: there is none left. */
    void *(*allocate)(const mp_backend *self, int64_t bytes);
    void (*release)(const mp_backend *self, void *memory, int64_t bytes);
    void (*fill)(const mp_backend *self, void *memory, unsigned char byte, int64_t bytes);
    void (*copy)(const mp_backend *self, void *to, const void *from, int64_t bytes); /* within this memory and that of pin */
    /* Returns the number of bytes up to the last one that differs from the given byte. */
    int64_t (*touched)(const mp_backend *self, const void *memory, unsigned char byte, int64_t bytes);
    /* Copies between plain arrays of the host and arrays of the backend in any layout; FLOAT and BFLOAT16 are converted. */
    mp_status (*upload)(const mp_backend *self, const mp_array *host, const mp_array *there, mp_error *err);
    mp_status (*download)(const mp_backend *self, const mp_array *there, const mp_array *host, mp_error *err);
    /* `pin` takes memory of the host's that the device reaches, for copies to other tiers and for the prefetch of the next
     * batch while a step runs; all four NULL: the memory is the program's own. bring is called by a
     * thread of its own: it copies from `pinned`, memory of pin (NULL: there is none left), to `landing`, memory of
     * allocate, and waits until the bytes are there; it starts once the previous batch has been copied on. land enqueues the
     * copy from `landing` to the inputs on the main stream; not while recording. MP_IO: the device has failed. */
    void *(*pin)(const mp_backend *self, int64_t bytes);
    void (*unpin)(const mp_backend *self, void *pinned);
    mp_status (*bring)(const mp_backend *self, void *landing, const void *pinned, int64_t bytes, mp_error *err);
    mp_status (*land)(const mp_backend *self, void *to, const void *landing, int64_t bytes, mp_error *err);
};

/* The type of a module's symbol, mp_module_backend: creates a backend for the device of this number, not yet opened. `host`
 * is the CPU's backend, which converts arrays in the program's memory for the module; it must outlive the new backend. The
 * caller releases it with `close`. NULL: out of memory. */
typedef mp_backend *mp_module_entry(const mp_backend *host, int ordinal);
