/* backend.h - the interface of a backend: the target (cost model) of a device, with functions that run kernels on this device.
 * The CPU and the GPU implement this interface.
 *
 * A backend first adapts a model: it chooses layouts, packs weights and inserts reorders as operators. While the training
 * graph is built, the backend prepares one call per node, so that support and workspace are known before planning. Later it
 * runs the calls. The caller provides all memory that a call reads or writes.
 *
 * A backend is an object. Its state between calls (an open device, streams, settings) is its `context`, so one process can use
 * several backends for several devices. Every function takes its backend as the first argument. Kernels have no such argument:
 * they run on the backend that is set for their thread, as CUDA calls run on the current device. mp_call_prepare and
 * mp_call_run set that backend. */
#pragma once

#include "estimator/training/target.h"
#include "estimator/training/training.h"
#include "executor/kernel/kernel.h"
#include "executor/kernel/optimizer.h"
#include "memplan/backend.h"

/* The user's settings for the arithmetic of a backend. */
typedef struct mp_backend_settings {
    bool tf32; /* true: float32 matrix products and convolutions may round their operands to TF32 (10 bits of mantissa) */
    bool fast; /* true: permits faster algorithms whose results may differ in the last bits from run to run */
    int64_t workspace_limit; /* limit in bytes for the workspace of one call of a vendor's library */
    mp_rates rates;          /* rates of the device's profile, for nodes that are not measured */
} mp_backend_settings;
#define MP_BACKEND_SETTINGS ((mp_backend_settings){.workspace_limit = INT64_C(256) << 20, .rates = MP_RATES_PEAK})

/* The sizes of a device's memory at this moment. */
typedef struct mp_backend_memory {
    int64_t total_bytes, free_bytes;
    int64_t process_bytes; /* device memory that this process holds, including its CUDA context and libraries; -1: the system
                              does not report it */
} mp_backend_memory;

/* Runs a chain (chain.h). */
struct mp_call_chain;
typedef mp_status (*mp_call_chain_run)(const struct mp_call_chain *chain, mp_error *err);

struct mp_backend {
    const char *name;          /* "cpu", "cuda" */
    int64_t alignment;         /* the offset of every storage is a multiple of this many bytes */
    bool is_host;              /* true: the backend uses host memory */
    bool gives_mask_gradients; /* true: the attention kernel computes the gradient of the mask or bias that is added to the
                                  scores */
    void *context;             /* the backend's private state; NULL: it has none */

    /* Returns the number of threads. Results and workspace depend on this number; if the number is not 0, it is part of the
     * target's name. */
    int (*threads)(const mp_backend *self);
    /* Makes this backend the one on which the calling thread prepares and runs kernels from now on. NULL: the kernels do not
     * depend on a selected backend. */
    void (*use)(const mp_backend *self);

    /* Returns the profile of the machine's own device, if it is known. mp_node_seconds of this profile estimates the
     * nodes that are not measured. */
    const mp_device *(*device)(const mp_backend *self);
    /* Makes the device ready to run; may be called again. Only adapt, kernel and the preparation of calls work without it.
     * MP_UNSUPPORTED: this machine has no such device; the message names the missing part. */
    mp_status (*open)(const mp_backend *self, mp_error *err);
    /* Applies the user's settings. Called before a program is built; a program keeps the settings that were valid when it was
     * built. NULL: the backend has no settings. */
    void (*settle)(const mp_backend *self, const mp_backend_settings *settings);
    /* Releases the backend and its open device; the backend must not be used afterwards. NULL: the backend is static. */
    void (*close)(mp_backend *self);
    /* Reads the memory sizes of the open device. NULL: the backend uses host memory. */
    mp_status (*memory)(const mp_backend *self, mp_backend_memory *now, mp_error *err);

    /* Chooses layouts, packs weights, and inserts Reorder operators between different layouts. The model must be inferred,
     * simplified and have its loss; it stays sorted. */
    mp_status (*adapt)(const mp_backend *self, mp_model *model, mp_dtype dtype, mp_error *err);
    const mp_kernel *(*kernel)(const mp_backend *self,
                               /* returns the kernel of an operator on this backend; NULL: the backend has no kernel */
                               const mp_operator *op);
    /* Lists the algorithms of a node that the settings permit, the backend's default first. n = 0: there is no choice.
     * x->algorithm selects one of them when a call is prepared; MP_UNSUPPORTED: this machine has no algorithm of that name.
     * NULL: no node of this backend has a choice. */
    mp_status (*algorithms)(const mp_backend *self, const mp_operands *x, mp_algorithms *out, mp_error *err);
    /* Returns the function that runs a chain as one launch, with the bits of the separate calls; NULL: the calls run one by
     * one. The operands have addresses. `chain` NULL: the backend has no such launches. */
    mp_call_chain_run (*chain)(const mp_backend *self, struct mp_call_chain *chain);
    /* The thread that runs training steps calls `enter` before the steps and `leave` after them. On the CPU, `enter` makes the
     * processor flush denormal numbers to zero, because arithmetic with denormals is a hundred times slower; `leave` ends this
     * mode. */
    void (*enter)(const mp_backend *self);
    void (*leave)(const mp_backend *self);
    /* Begins a pass through the network; all work of the previous pass must have run. Seed and step determine the random
     * numbers of the pass. `factors` are the scalars of the pass's updates, such as the learning rate; NULL: the pass has no
     * updates. */
    void (*begin)(const mp_backend *self, uint64_t seed, uint32_t step, const mp_update_factors *factors);
    /* Records the work that a pass enqueues. A recording can be replayed any number of times; each replay uses the values of
     * the last `begin`. Between record_begin and record_end nothing runs. Between them, only calls, add, copy, update, clip
     * and the side streams may be used. record_end ends the recording, also after a failure. The caller releases *recording
     * with discard. NULL: the backend cannot record. */
    mp_status (*record_begin)(const mp_backend *self, mp_error *err);
    mp_status (*record_end)(const mp_backend *self, void **recording, mp_error *err);
    mp_status (*replay)(const mp_backend *self, void *recording, mp_error *err);
    void (*discard)(const mp_backend *self, void *recording);
    /* Waits until all enqueued work has run. MP_IO: the device has failed. */
    mp_status (*wait)(const mp_backend *self, mp_error *err);
    /* Reports, without waiting, whether all enqueued work has run. NULL: a call returns only after its work has run. MP_IO: as
     * for wait. */
    mp_status (*has_run)(const mp_backend *self, bool *all, mp_error *err);
    /* Device timestamps. note_time(k) records the time when the work enqueued so far on the main stream is done.
     * seconds_between waits for two timestamps and returns the seconds between them. The caller numbers timestamps from 0; a
     * second timestamp with the same number replaces the first. Not allowed while recording. Both NULL: the host's clock is
     * used instead. MP_IO: the device has failed; MP_NOMEM. */
    mp_status (*note_time)(const mp_backend *self, int k, mp_error *err);
    mp_status (*seconds_between)(const mp_backend *self, int from, int to, double *seconds, mp_error *err);
    /* Side streams: one per channel of a graph, except the compute channel. Work enqueued between side_begin and side_end goes
     * to the channel's stream; it starts after all work enqueued earlier on the main stream. After side_wait(channel, m),
     * later work on the main stream waits for all work of that channel up to side_end(channel, m).
     *
     * `mark` increases from call to call of a channel within a pass. Before a pass ends, every mark, or a later mark of its
     * channel, must be waited for. Side streams may be used while recording if every channel was used before. MP_IO: the
     * device has failed. MP_NOMEM. NULL: there are no side streams; updates run in order on the main stream, and the program
     * itself copies to other tiers. */
    mp_status (*side_begin)(const mp_backend *self, int channel, mp_error *err);
    mp_status (*side_end)(const mp_backend *self, int channel, int mark, mp_error *err);
    mp_status (*side_wait)(const mp_backend *self, int channel, int mark, mp_error *err);
    /* Returns the stream to which work is enqueued at this moment, as a handle of the vendor's libraries. NULL: there are no
     * streams. */
    void *(*stream)(const mp_backend *self);
    /* Adds n elements of type `dtype`: to[k] += from[k]. Used if a kernel cannot accumulate a gradient itself. */
    void (*add)(const mp_backend *self, mp_dtype dtype, int64_t n, const void *from, void *to);
    /* `update` updates n parameters in one call. `clip` computes the norm of all gradients, and writes to *factor the number
     * by which updates multiply the gradients. The workspace of `clip` has norm_workspace_bytes(number of elements of the
     * largest gradient) bytes. */
    void (*update)(const mp_backend *self, mp_update *updates, size_t n, const mp_update_factors *factors);
    int64_t (*norm_workspace_bytes)(const mp_backend *self, int64_t n_elements);
    void (*clip)(const mp_backend *self, const mp_update *gradients, size_t n, double clip_norm, void *workspace,
                 float *factor);
    /* Returns the sum of the squares of all gradients, which is the square of the gradient norm. NULL: the host does not know
     * the sum before the updates run. */
    double (*squares)(const mp_backend *self, const mp_update *gradients, size_t n, void *workspace);

    /* Allocates memory for the operands and workspaces of calls. NULL: out of memory. */
    void *(*allocate)(const mp_backend *self, int64_t bytes);
    void (*release)(const mp_backend *self, void *memory, int64_t bytes);
    void (*fill)(const mp_backend *self, void *memory, unsigned char byte, int64_t bytes);
    void (*copy)(const mp_backend *self, void *to, const void *from,
                 int64_t bytes); /* copies bytes; both addresses are memory from `allocate` or `pin` */
    /* Returns 1 + the index of the last byte that differs from `byte`; 0: none differs. After `fill`, this measures the part
     * of a block that was written. */
    int64_t (*touched)(const mp_backend *self, const void *memory, unsigned char byte, int64_t bytes);
    /* Copy between row-major host arrays and arrays of the backend in any layout, and convert between FLOAT and BFLOAT16. */
    mp_status (*upload)(const mp_backend *self, const mp_array *host, const mp_array *there, mp_error *err);
    mp_status (*download)(const mp_backend *self, const mp_array *there, const mp_array *host, mp_error *err);
    /* Prefetch of the next batch while a step runs, and copies to other tiers. `pin` allocates host memory that the device can
     * access; NULL: out of memory. The prefetch thread calls bring, which copies from `pinned` (memory of pin) to `landing`
     * (memory of allocate) and waits for the end of the copy. The caller starts bring only after the previous batch has been
     * copied from `landing`. land enqueues the copy from `landing` to the inputs on the main stream, and must not be called
     * while a pass is recorded. MP_IO: the device has failed. All four NULL: the backend uses host memory. */
    void *(*pin)(const mp_backend *self, int64_t bytes);
    void (*unpin)(const mp_backend *self, void *pinned);
    mp_status (*bring)(const mp_backend *self, void *landing, const void *pinned, int64_t bytes, mp_error *err);
    mp_status (*land)(const mp_backend *self, void *to, const void *landing, int64_t bytes, mp_error *err);
};

/* The type of a module's symbol, mp_module_backend. Creates a backend, not yet opened, for the device with number `ordinal`.
 * `host` is the CPU's backend; the module uses it to convert arrays in host memory, so `host` must outlive the new backend.
 * The caller releases the result with `close`. NULL: out of memory. */
typedef mp_backend *mp_module_entry(const mp_backend *host, int ordinal);
