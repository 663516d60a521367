/* framework_code.c - the lines of code for PyTorch, torch_remat, Hugging Face, Megatron, DeepSpeed, Paddle and JAX. */
#include "memplan/framework_code.h"

#include <math.h>
#include <stdio.h>
#include <string.h>

#include "estimator/base/names.h"
#include "formats/frameworks/framework.h"
#include "memplan/solver.h"
#include "planner/segments/module_schedule.h"
#include "planner/segments/modules.h"

MP_NAMED(framework, "pytorch", "pytorch-selective", "torch-remat", "huggingface", "paddle", "megatron", "jax", "deepspeed")

/* ---- PyTorch ---- */

/* True if some recomputed operator also writes a static storage, such as running statistics, so that recomputation changes this
 * storage twice. */
static bool writes_again(const mp_modules *m, const bool *chosen)
{
    for (int k = 0; k < m->n_calls; k++)
        for (int p = m->calls[k].first; chosen[m->calls[k].module] && p < m->calls[k].again_end; p++) {
            const mp_alternative *alternative = &m->graph->nodes[m->node[p]].alternatives[0];
            for (size_t i = 0; i < alternative->n_writes; i++)
                if (m->graph->storages[alternative->writes[i]].kind == MP_KIND_BUFFER) return true;
        }
    return false;
}

/* True if some chosen module has no parameters. In PyTorch such a module (ReLU) may overwrite its input (inplace=True), which
 * checkpointing does not allow. */
static bool may_be_in_place(const mp_modules *m, const bool *chosen)
{
    for (int k = 0; k < m->n_calls; k++) {
        bool has_parameters = false;
        for (int p = m->calls[k].first; p < m->calls[k].end; p++) {
            const mp_alternative *alternative = &m->graph->nodes[m->node[p]].alternatives[0];
            for (size_t i = 0; i < alternative->n_reads; i++)
                has_parameters |= m->graph->storages[alternative->reads[i]].kind == MP_KIND_PARAMETER;
        }
        if (chosen[m->calls[k].module] && !has_parameters) return true;
    }
    return false;
}

/* How the Python code recomputes a module in backward. */
typedef struct checkpointer {
    /* Python code: the name of the function that recomputes, and the call of a module that is wrapped in it */
    const char *function, *wrapped;
    bool is_torchs;
} checkpointer;

static const checkpointer by_torch = {"torch.utils.checkpoint",
                                      "functools.partial(checkpoint, module.forward, use_reentrant=False)", true};
static const checkpointer by_remat = {"torch_remat.checkpoint", "torch_remat.checkpoint(region_name=name)(module.forward)",
                                      false};

static void write_wrapped(mp_framework_writer *x, const checkpointer *by, const bool *chosen)
{
    mp_visible_put(&x->text, by->is_torchs ? "import functools\n\nfrom torch.utils.checkpoint import checkpoint\n\n"
                                           : "import torch_remat\n\n");
    mp_text_put(&x->text, "for name in [\n");
    for (int m = 0; m < x->modules->n; m++)
        if (chosen[m]) mp_framework_list(x, mp_framework_module(x, m));
    mp_text_put(&x->text, "]:\n    module = model.get_submodule(name)\n");
    if (may_be_in_place(x->modules, chosen))
        mp_text_put(&x->text, "    if getattr(module, \"inplace\", False):\n"
                              "        module.inplace = False  # the second run needs its input\n");
    mp_visible_put(&x->text, "    module.forward = %s\n", by->wrapped);
    if (writes_again(x->modules, chosen))
        mp_text_put(&x->text, "# Some of these modules update their buffers (running statistics) twice per step.\n");
    if (!by->is_torchs)
        mp_text_put(&x->text, "# Modules are recomputed to their ends. Dropout in them would draw other numbers: pass\n"
                              "# recompute_state_hooks= with the generators' state.\n");
}

static void write_module_plan(mp_framework_writer *x, const checkpointer *by, const mp_plan *plan, const bool *chosen)
{
    int n = 0;
    for (int m = 0; m < x->modules->n; m++) n += chosen[m];
    mp_framework_head(x, mp_text("%d module%s in %s", n, n == 1 ? "" : "s", by->function), plan->peak_bytes, plan->ticks);
    if (n) write_wrapped(x, by, chosen);
    const double most = (double)(x->request->plan->baseline_peak_bytes - x->request->plan->static_bytes);
    const double share =
        (double)(x->budget_bytes - x->request->plan->static_bytes) / most; /* fraction of the non-static memory */
    if (by->is_torchs && most > 0)
        mp_visible_put(&x->text, "# With torch.compile instead:\n# torch._functorch.config.activation_memory_budget = %.2f\n",
                       share < 1 ? floor(100 * share) / 100 : 1);
}

/* Writes a plan in which whole modules are wrapped in torch.utils.checkpoint: the user's plan if it is of this kind, otherwise
 * the best such plan within its budget. */
static mp_status write_modules(mp_framework_writer *x, const checkpointer *by, mp_error *err)
{
    const mp_request request = {.graph = x->request->graph, .budget_bytes = x->budget_bytes, .own = &mp_modules_solver};
    MP_CLEARED_BY(mp_answer_free) mp_answer answer = {0};
    bool is_one = false;
    bool *chosen = x->chosen;
    const mp_plan *plan = x->request->plan;
    MP_CHECK(mp_module_schedule_read(x->modules, plan->steps, plan->n_steps, chosen, &is_one, err));
    if (!is_one) {
        MP_CHECK(mp_solve(&request, &answer, err));
        if (!answer.plan) {
            mp_framework_too_coarse(x, "the smallest peak of checkpoints around modules is", answer.smallest->peak_bytes);
            return MP_OK;
        }
        plan = answer.plan;
        MP_CHECK(mp_module_schedule_read(x->modules, plan->steps, plan->n_steps, chosen, &is_one, err));
    }
    write_module_plan(x, by, plan, chosen);
    return MP_OK;
}

/* ---- frameworks that checkpoint the first blocks of a network ---- */

static void write_huggingface(mp_framework_writer *x, const mp_module_blocks *b, int k)
{
    const char *name = mp_framework_module(x, b->module[0]);
    const int digits = (int)strlen(x->modules->modules[b->module[0]].name) - b->prefix, prefix = (int)strlen(name) - digits;
    char text[MP_FRAMEWORK_TEXT_MAX];
    mp_text_put(&x->text, "model.gradient_checkpointing_enable(gradient_checkpointing_kwargs={\"use_reentrant\": False})\n");
    if (k == b->n) return;
    if (prefix > 1 && name[prefix - 1] == '.') {
        mp_visible_put(&x->text, "for block in model.get_submodule(\"%s\")[%d:]:\n",
                       mp_framework_quoted(name, prefix - 1, false, text), k);
        mp_text_put(&x->text, "    block.gradient_checkpointing = False\n");
        return;
    }
    mp_visible_put(&x->text, "for k in range(%d, %d):\n", k, b->n);
    mp_visible_put(&x->text, "    model.get_submodule(f\"%s{k}\").gradient_checkpointing = False\n",
                   mp_framework_quoted(name, prefix, true, text));
}

static void write_megatron(mp_framework_writer *x, const mp_module_blocks *b, int k)
{
    (void)b;
    mp_visible_put(&x->text, "--recompute-granularity full --recompute-method block --recompute-num-layers %d\n", k);
}

static void write_deepspeed(mp_framework_writer *x, const mp_module_blocks *b, int k)
{
    mp_text_put(&x->text, "import functools\n\nimport deepspeed\n\nfor name in [\n");
    for (int i = 0; i < k; i++) mp_framework_list(x, mp_framework_module(x, b->module[i]));
    mp_text_put(&x->text, "]:\n    module = model.get_submodule(name)\n");
    mp_text_put(&x->text,
                "    module.forward = functools.partial(deepspeed.checkpointing.non_reentrant_checkpoint, module.forward)\n");
    mp_visible_put(&x->text, "# In the configuration, for contiguous_memory_optimization only: \"number_checkpoints\": %d\n",
                   k);
}

static void write_wrapped_blocks(mp_framework_writer *x, const mp_module_blocks *b, int k, const checkpointer *by)
{
    for (int m = 0; m < x->modules->n; m++) x->chosen[m] = false;
    for (int i = 0; i < k; i++) x->chosen[b->module[i]] = true;
    write_wrapped(x, by, x->chosen);
}

static void write_torch_blocks(mp_framework_writer *x, const mp_module_blocks *b, int k)
{
    write_wrapped_blocks(x, b, k, &by_torch);
}

static void write_remat_blocks(mp_framework_writer *x, const mp_module_blocks *b, int k)
{
    write_wrapped_blocks(x, b, k, &by_remat);
}

typedef void (*block_writer)(mp_framework_writer *x, const mp_module_blocks *b, int k);

static mp_status write_blocks(mp_framework_writer *x, block_writer write, mp_error *err)
{
    MP_CLEARED_BY(mp_module_blocks_free) mp_module_blocks b = {0};
    int64_t peak_bytes, ticks, all_peak_bytes, all_ticks;
    int k;
    MP_CHECK(mp_module_blocks_find(x->modules, &b, err));
    MP_CHECK(mp_module_blocks_fewest(&b, x->budget_bytes, &k, &peak_bytes, &ticks, err));
    if (k < 0) {
        mp_framework_too_coarse(x, "with every block checkpointed the peak is", peak_bytes);
        return MP_OK;
    }
    MP_CHECK(mp_module_blocks_judge(&b, b.n, NULL, &all_peak_bytes, &all_ticks, err));
    mp_framework_head(
        x, mp_text("the first %d of %d blocks (%.100s, ...) checkpointed", k, b.n, mp_framework_module(x, b.module[0])),
        peak_bytes, ticks);
    mp_text_put(&x->text, "#   all blocks: ");
    mp_framework_cost(x, all_peak_bytes, all_ticks);
    mp_text_put(&x->text, "\n");
    mp_framework_origin(x);
    if (k > 0)
        write(x, &b, k);
    else
        mp_text_put(&x->text, "# No block has to be checkpointed.\n");
    return MP_OK;
}

/* ---- frameworks that accept a list of tensors to keep ---- */

static const char *tensor_name(const mp_graph *graph, int storage)
{
    const mp_storage *row = &graph->storages[storage];
    return row->n_tensors ? row->tensors[0] : row->name;
}

/* Removes each tensor from a list of checkpoints if peak and time are not higher without it. */
static mp_status shorten(const mp_framework_writer *x, int *list, size_t *n, mp_error *err)
{
    int64_t peak_bytes, ticks, peak, time;
    MP_CHECK(mp_segments_on(x->request->graph, list, *n, &peak_bytes, &ticks, err));
    for (size_t k = *n; k-- > 0;) {
        const int left_out = list[k];
        memmove(list + k, list + k + 1, (*n - k - 1) * sizeof *list);
        MP_CHECK(mp_segments_on(x->request->graph, list, *n - 1, &peak, &time, err));
        if (peak <= peak_bytes && time <= ticks) {
            peak_bytes = peak;
            ticks = time;
            --*n;
            continue;
        }
        memmove(list + k + 1, list + k, (*n - k - 1) * sizeof *list);
        list[k] = left_out;
    }
    return MP_OK;
}

static void write_paddle(mp_framework_writer *x, const int *list, size_t n)
{
    mp_text_put(&x->text,
                "# For static graphs; start Python with FLAGS_enable_pir_api=0, which this optimizer needs since Paddle 3.\n");
    mp_text_put(&x->text,
                "optimizer = paddle.incubate.optimizer.RecomputeOptimizer(optimizer)\noptimizer._set_checkpoints([\n");
    for (size_t k = 0; k < n; k++) mp_framework_list(x, tensor_name(x->request->graph, list[k]));
    mp_text_put(&x->text, "])\n");
    if (x->request->architecture)
        mp_text_put(&x->text,
                    "# The names are memplan's; 'memplan graph' lists the operators, to find these values in your program.\n");
    else if (x->request->has_model)
        mp_text_put(&x->text, "# The names are the model file's; a program built by hand may call its variables otherwise.\n");
}

static void write_jax(mp_framework_writer *x, const int *list, size_t n)
{
    mp_text_put(&x->text, "# Name these values where they are made: jax.ad_checkpoint.checkpoint_name(value, \"name\").\n");
    mp_text_put(&x->text, "# memplan counts recomputation segment by segment; XLA chooses its own order.\n");
    mp_text_put(&x->text, "policy = jax.checkpoint_policies.save_only_these_names(\n");
    for (size_t k = 0; k < n; k++) mp_framework_list(x, tensor_name(x->request->graph, list[k]));
    mp_text_put(&x->text, ")\nloss = jax.checkpoint(loss, policy=policy)\n");
}

typedef void (*list_writer)(mp_framework_writer *x, const int *list, size_t n);

/* Writes the best list of checkpoints within the plan's budget. In backward, the framework recomputes the segments between
 * them. */
static mp_status write_list(mp_framework_writer *x, const char *what, list_writer write, mp_error *err)
{
    const mp_request request = {.graph = x->request->graph, .budget_bytes = x->budget_bytes, .solver = "segments"};
    MP_CLEARED_BY(mp_answer_free) mp_answer answer = {0};
    MP_OWNED int *list = NULL;
    int64_t peak_bytes, ticks;
    MP_CHECK(mp_solve(&request, &answer, err));
    if (!answer.plan) {
        mp_framework_too_coarse(x, "the smallest peak of recomputed segments is", answer.smallest->peak_bytes);
        return MP_OK;
    }
    size_t n = answer.plan->n_checkpoints;
    MP_ENSURE(list = mp_alloc(n, sizeof *list), err, MP_NOMEM, "out of memory");
    if (n) memcpy(list, answer.plan->checkpoints, n * sizeof *list);
    MP_CHECK(shorten(x, list, &n, err));
    MP_CHECK(mp_segments_on(x->request->graph, list, n, &peak_bytes, &ticks, err));
    mp_framework_head(x, what, peak_bytes, ticks);
    write(x, list, n);
    return MP_OK;
}

/* Writes the settings of a program that computes the logits and their loss in chunks of rows. */
static void write_head_chunks(mp_framework_writer *x, mp_framework framework)
{
    const int n = x->request->head_chunks;
    if (!n || framework == MP_FRAMEWORK_PADDLE || framework == MP_FRAMEWORK_JAX || framework == MP_FRAMEWORK_MEGATRON) return;
    mp_visible_put(&x->text,
                   "# The plan computes the logits and their loss in %d chunks of %lld tokens. Settings of other programs:\n",
                   n, (long long)x->request->head_rows);
    mp_visible_put(&x->text, "#   torchtitan: loss=ChunkedLossWrapper.Config(num_chunks=%d, ...)\n", n);
    mp_visible_put(&x->text,
                   "#   torchtune: in loss, _component_: torchtune.modules.loss.LinearCrossEntropyLoss (in 0.6: "
                   "CEWithChunkedOutputLoss, with whole logits) and num_output_chunks: %d\n",
                   n);
    mp_text_put(&x->text,
                "#   TRL: SFTTrainer in 1.16 has chunks of 4096 tokens and 32768 words, older versions have chunks of "
                "256 tokens with loss_type=\"chunked_nll\"\n"
                "#   Liger: use_liger_kernel=True in TrainingArguments; it chooses the number of chunks\n");
}

static mp_status write_code(mp_framework_writer *x, mp_framework framework, mp_error *err)
{
    /* in Hugging Face's transformers the norms are outside of attention and mlp, so only whole blocks can be wrapped there */
    const bool has_modules = !x->request->architecture;
    switch (framework) {
    case MP_FRAMEWORK_PYTORCH:
        return has_modules ? write_modules(x, &by_torch, err) : write_blocks(x, write_torch_blocks, err);
    case MP_FRAMEWORK_TORCH_REMAT:
        return has_modules ? write_modules(x, &by_remat, err) : write_blocks(x, write_remat_blocks, err);
    case MP_FRAMEWORK_PYTORCH_SELECTIVE:
        return mp_framework_selective(x, err);
    case MP_FRAMEWORK_HUGGINGFACE:
        return write_blocks(x, write_huggingface, err);
    case MP_FRAMEWORK_PADDLE:
        return write_list(x, "checkpoints for RecomputeOptimizer", write_paddle, err);
    case MP_FRAMEWORK_MEGATRON:
        return write_blocks(x, write_megatron, err);
    case MP_FRAMEWORK_JAX:
        return write_list(x, "names for jax.checkpoint", write_jax, err);
    default:
        return write_blocks(x, write_deepspeed, err);
    }
}

static void writer_free(mp_framework_writer *x)
{
    mp_modules_free(x->modules);
    mp_free(x->chosen);
    mp_text_builder_free(&x->text);
}

mp_status mp_framework_code_of(const mp_framework_request *request, mp_framework framework, mp_framework_code *out,
                               mp_error *err)
{
    const mp_plan *plan = request->plan;
    MP_CLEARED_BY(writer_free) mp_framework_writer x = {.request = request};
    MP_CHECK(mp_modules_new(request->graph, &x.modules, err));
    x.chosen = mp_alloc((size_t)x.modules->n, sizeof *x.chosen);
    if (!x.chosen) return MP_NO_MEMORY(err);
    x.budget_bytes = plan->budget_bytes < MP_NO_LIMIT ? plan->budget_bytes : plan->peak_bytes;
    MP_CHECK(write_code(&x, framework, err));
    write_head_chunks(&x, framework);
    if (x.text.failed) return MP_NO_MEMORY(err);
    *out = x.found;
    out->text = x.text.text;
    x.text.text = NULL;
    return MP_OK;
}

mp_status mp_framework_unwrapped(const mp_graph *graph, char *names, size_t size, int *n, int *n_named, mp_error *err)
{
    MP_OWNED_BY(mp_modules_free) mp_modules *modules = NULL;
    size_t used = 0;
    MP_CHECK(mp_modules_new(graph, &modules, err));
    *n = *n_named = 0;
    if (size) names[0] = '\0';
    for (int m = 0; m < modules->n; m++) {
        const mp_module *row = &modules->modules[m];
        if (!row->is_split || (*n)++ > *n_named || used + strlen(row->name) + 2 > size) continue;
        used += (size_t)snprintf(names + used, size - used, "%s%s", (*n_named)++ ? ", " : "", row->name);
    }
    return MP_OK;
}

void mp_framework_code_free(mp_framework_code *code)
{
    mp_free(code->text);
    code->text = NULL;
}
