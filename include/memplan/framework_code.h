/* framework_code.h - the settings of a framework (PyTorch, Hugging Face, JAX, ...) that come closest to a plan, as lines of
 * code. Comments in the lines state the memory and the time of a training step with these settings.
 *
 *     // given: const mp_graph *graph; const mp_plan *plan; mp_error *err
 *     const mp_framework_request request = {.graph = graph, .plan = plan, .title = "resnet50, batch 8"};
 *     mp_framework_code code;
 *     MP_CHECK(mp_framework_code_of(&request, MP_FRAMEWORK_PYTORCH, &code, err));
 *     puts(code.text);
 *     mp_framework_code_free(&code);
 */
#pragma once

#include "memplan/architecture.h"
#include "memplan/graph.h"
#include "memplan/plan.h"

typedef enum mp_framework {
    MP_FRAMEWORK_PYTORCH,           /* torch.utils.checkpoint around modules */
    MP_FRAMEWORK_PYTORCH_SELECTIVE, /* a policy of selective checkpointing for blocks */
    MP_FRAMEWORK_TORCH_REMAT,
    MP_FRAMEWORK_HUGGINGFACE,
    MP_FRAMEWORK_PADDLE,
    MP_FRAMEWORK_MEGATRON,
    MP_FRAMEWORK_JAX,
    MP_FRAMEWORK_DEEPSPEED,
    MP_N_FRAMEWORKS
} mp_framework;
/* Returns "pytorch", "pytorch-selective", ...; "unknown" past the last framework. */
const char *mp_framework_name(mp_framework framework);
/* Returns the framework with this name; -1: there is none. */
int mp_framework_find(const char *name);

typedef struct mp_framework_request {
    const mp_graph *graph;
    const mp_plan *plan; /* the settings fit the budget of this plan, or its peak if it has no budget */
    const char *title;   /* name of the network and its batch, for the comments */
    /* the architecture of a network that memplan knows by name: its modules are named as in Hugging Face's transformers; NULL:
     * the network is from a file */
    const mp_architecture *architecture;
    bool has_model; /* true: the names of the graph's tensors are those of a model file */
    /* head_chunks: number of chunks of rows in which the plan computes the logits and their loss; 0: whole. head_rows: rows of
     * the largest chunk */
    int head_chunks;
    int64_t head_rows;
} mp_framework_request;

typedef struct mp_framework_code {
    bool fits; /* true: a setting of the framework needs at most the budget; `text` has the lines of this setting. false: `text`
                  says that none fits */
    /* peak bytes of a step with the fastest setting that fits the budget; if none fits, the smallest peak of all settings */
    int64_t peak_bytes;
    int64_t ticks; /* ticks of one training step with this setting; -1: no setting fits */
    char *text;
} mp_framework_code;

/* Finds the fastest settings of the framework that fit the plan's budget, and writes them as lines of code. Control characters
 * in names are replaced by visible escapes. On MP_OK release *out with mp_framework_code_free. MP_NOT_APPLICABLE: the network
 * has no modules or blocks that the framework can checkpoint, or no backward phase. Other errors as mp_solve. Cost:
 * tens to thousands of timelines. */
mp_status mp_framework_code_of(const mp_framework_request *request, mp_framework framework, mp_framework_code *out,
                               mp_error *err);
void mp_framework_code_free(mp_framework_code *code); /* releases the members, not the struct; a zeroed struct is allowed */

/* Finds the modules that no framework can wrap, because other operators run between theirs. Writes as many of their names as
 * fit into `names`, separated by commas. *n is their number, *n_named the number of names written. MP_NOMEM. O(nodes). */
mp_status mp_framework_unwrapped(const mp_graph *graph, char *names, size_t size, int *n, int *n_named, mp_error *err);
