/* option_rows.c - the option table. A new option is a row here and a field in options.h. */
#include "cli/options/options.h"
#include "estimator/training/target.h"
#include "estimator/training/training.h"
#include "executor/kernel/backend.h"
#include "executor/kernel/optimizer.h"
#include "planner/search/solver.h"

static const char *loss_choice(size_t k)
{
    return k < MP_N_LOSSES ? mp_loss_name((mp_loss)k) : NULL;
}
static const char *optimizer_choice(size_t k)
{
    return k < MP_N_OPTIMIZERS ? mp_optimizer_name((mp_optimizer)k) : NULL;
}
static const char *fuse_choice(size_t k)
{
    return k < MP_N_FUSES ? mp_fuse_name((mp_fuse)k) : NULL;
}
static const char *rules_choice(size_t k)
{
    return k < MP_N_RULES ? mp_rules_name((mp_rules)k) : NULL;
}
/* The profiles, then the backends that have none of their name. */
static const char *device_choice(size_t k)
{
    const char *name;
    if (k < mp_device_count()) return mp_device_row(k)->name;
    k -= mp_device_count();
    for (size_t b = 0; (name = mp_backend_name(b)); b++)
        if (!mp_device_find(name) && !k--) return name;
    return NULL;
}
static const char *solver_choice(size_t k)
{
    return k < mp_solver_count() ? mp_solver_row(k)->name : NULL;
}
static const char *schedule_choice(size_t k)
{
    return k < MP_N_SCHEDULES ? mp_schedule_name((mp_schedule)k) : NULL;
}
static const char *dtype_choice(size_t k)
{
    static const char *const names[] = {"fp32", "fp16", "bf16"};
    return k < sizeof names / sizeof *names ? names[k] : NULL;
}

static const char *view_choice(size_t k)
{
    static const char *const views[] = {"auto", "memory", "arena"};
    return k < 3 ? views[k] : NULL;
}

#define AT(field) offsetof(options, field)
#define ESTIMATE (1u << CMD_ESTIMATE)
#define PLAN (1u << CMD_PLAN)
#define GRAPH (1u << CMD_GRAPH)
#define CHECK (1u << CMD_CHECK)
#define PACK (1u << CMD_PACK)
#define TIMELINE (1u << CMD_TIMELINE)
#define SWEEP (1u << CMD_SWEEP)
#define FIT (1u << CMD_FIT)
#define DRAW (1u << CMD_DRAW)
#define TRAIN (1u << CMD_TRAIN)
#define PROFILE (1u << CMD_PROFILE)
#define MODEL (ESTIMATE | PLAN | GRAPH | CHECK | PACK | SWEEP | FIT | DRAW | TIMELINE | TRAIN | PROFILE)
#define OPS (1u << CMD_OPS)
#define EVERY ((1u << N_COMMANDS) - 1)

/* clang-format off */
const option_row option_rows[N_OPTIONS] = {
    [OPT_BATCH]       = {"batch", KIND_COUNT, AT(batch), MODEL & ~FIT, "batch", "N", NULL, 1, NULL, "the batch size (default: as the file fixes it)"},
    [OPT_DIM]         = {"dim", KIND_BINDING, AT(dims), MODEL, "dims", "NAME=N", NULL, 0, NULL, "the size of a symbolic dimension; may be repeated"},
    [OPT_DATA]        = {"data", KIND_LIST, AT(data), MODEL, "data", "NAME", NULL, 0, NULL, "this input is data, all others are parameters; may be repeated (default: by rule)"},
    [OPT_OUTPUT]      = {"output", KIND_TEXT, AT(output), MODEL, "output", "NAME", NULL, 0, NULL, "the tensor the loss is put on (default: the first output)"},
    [OPT_LOSS]        = {"loss", KIND_CHOICE, AT(loss), MODEL, "loss", "LOSS", "auto", 0, loss_choice, "what is trained for; auto: the model's own loss, else cross-entropy, or mse where there are no classes"},
    [OPT_OPTIMIZER]   = {"optimizer", KIND_CHOICE, AT(optimizer), MODEL, "optimizer", "NAME", "adamw", 0, optimizer_choice, "whose state takes memory"},
    [OPT_FREEZE]      = {"freeze", KIND_LIST, AT(freeze), MODEL, "freeze", "PATTERN", NULL, 0, NULL, "do not train parameters of such names (* ? []); may be repeated"},
    [OPT_FUSE]        = {"fuse", KIND_CHOICE, AT(fuse), MODEL, "fuse", "WHERE", "none", 0, fuse_choice, "where the updates run: after all of backward, within it, or before the next forward"},
    [OPT_DTYPE]       = {"dtype", KIND_CHOICE, AT(dtype), MODEL, "dtype", "TYPE", "fp32", 0, dtype_choice, "of activations and gradients; fp16 and bf16 keep fp32 master weights"},
    [OPT_DEVICE]      = {"device", KIND_CHOICE, AT(device), MODEL | OPS, "device", "NAME", "a100", 0, device_choice, "the profile that costs are taken from; cpu and cuda also run"},
    [OPT_RULES]       = {"rules", KIND_CHOICE, AT(rules), MODEL, "rules", "WHOSE", "executor", 0, rules_choice, "what backward keeps: as little as it can, or what PyTorch's autograd keeps"},
    [OPT_NO_SIMPLIFY] = {"no-simplify", KIND_OFF, AT(simplify), MODEL, "simplify", NULL, NULL, 0, NULL, "take the operators as the file writes them"},
    [OPT_ACCUMULATE]  = {"accumulate", KIND_COUNT, AT(accumulate), MODEL, "accumulate", "K", NULL, 1, NULL, "micro-batches per update; their gradients add up"},
    [OPT_CLIP_NORM]   = {"clip-norm", KIND_POSITIVE, AT(clip_norm), MODEL, "clip_norm", "X", NULL, 0, NULL, "scale gradients down to this global norm before the update"},
    [OPT_INEXACT]     = {"inexact", KIND_FLAG, AT(inexact), MODEL, "inexact", NULL, NULL, 0, NULL, "plan with backward from a normalization's output too, which rounds differently"},
    [OPT_NO_FUSED_ATTENTION] = {"no-fused-attention", KIND_OFF, AT(fused_attention), MODEL, "fused_attention", NULL, NULL, 0, NULL, "keep the matrix of attention scores, operator by operator"},
    [OPT_TF32]        = {"tf32", KIND_FLAG, AT(tf32), MODEL, "tf32", NULL, NULL, 0, NULL, "on a GPU, fp32 products round their factors to TF32 and use tensor cores"},
    [OPT_FAST]        = {"fast", KIND_FLAG, AT(fast), MODEL, "fast", NULL, NULL, 0, NULL, "--device cuda: permit algorithms that differ from run to run in their last bits"},
    [OPT_WORKSPACE_LIMIT] = {"workspace-limit", KIND_BYTES, AT(workspace_limit), MODEL, "workspace_limit", "BYTES", NULL, 1, NULL, "--device cuda: what one call of a library may ask for (default: 256MiB)"},
    [OPT_COSTS]       = {"costs", KIND_TEXT, AT(costs), MODEL & ~(FIT | PROFILE), "costs", "FILE", NULL, 0, NULL, "seconds as 'memplan profile' has measured them, in place of the roofline"},
    [OPT_BUDGET]      = {"budget", KIND_TEXT, AT(budget), PLAN | TRAIN, NULL, "BYTES", NULL, 0, NULL, "memory for everything: 8GiB, 800MB, 16e9, 60% of the peak without a plan, floor+50%, or auto: what is free on the GPU less 1 GiB"},
    [OPT_SOLVER]      = {"solver", KIND_CHOICE, AT(solver), PLAN | FIT | TRAIN, NULL, "NAME", "auto", 0, solver_choice, "the searcher ('memplan solvers' explains them)"},
    [OPT_BUDGETS]     = {"budgets", KIND_TEXT, AT(budgets), SWEEP, NULL, "B1,B2,...", NULL, 0, NULL, "as plan's --budget, several (default: from the smallest feasible to keep-all)"},
    [OPT_SOLVERS]     = {"solvers", KIND_TEXT, AT(solvers), SWEEP, NULL, "S1,S2,...", NULL, 0, NULL, "these searchers only (default: all that apply)"},
    [OPT_MEMORY]      = {"memory", KIND_TEXT, AT(memory), FIT, NULL, "BYTES", NULL, 0, NULL, "what the step may take, parameters and all: 24GiB, 800MB, 16e9"},
    [OPT_OVERHEAD]    = {"overhead", KIND_TEXT, AT(overhead), FIT, NULL, "PERCENT", "20%", 0, NULL, "extra time that recomputation may take (default: 20%)"},
    [OPT_CHECKPOINTS] = {"checkpoints", KIND_TEXT, AT(checkpoints), PLAN, NULL, "T1,T2,...", NULL, 0, NULL, "keep exactly these tensors, as segments does"},
    [OPT_SEED]        = {"seed", KIND_COUNT, AT(seed), PLAN | SWEEP | FIT | TRAIN | PROFILE, NULL, "N", NULL, 0, NULL, "of whatever draws numbers: searchers, first weights, dropout, shuffling (default: 0)"},
    [OPT_MOVES]       = {"moves", KIND_COUNT, AT(moves), PLAN | SWEEP | FIT | TRAIN, NULL, "N", NULL, 1, NULL, "how many candidates a searcher may try (default: its own)"},
    [OPT_TIME_LIMIT]  = {"time-limit", KIND_POSITIVE, AT(time_limit), PLAN | PACK | TRAIN, NULL, "SECONDS", NULL, 0, NULL, "stop the search then, with the best so far"},
    [OPT_KEEP_ORDER]  = {"keep-order", KIND_FLAG, AT(keep_order), PLAN | SWEEP | FIT | TRAIN, NULL, NULL, NULL, 0, NULL, "run every node for the first time in the order of the file: search for recomputation only"},
    [OPT_SECOND_STREAM] = {"second-stream", KIND_FLAG, AT(second_stream), PLAN | TRAIN, NULL, NULL, NULL, 0, NULL, "--fuse backward: run updates on a second stream beside backward, where memory and time permit"},
    [OPT_NO_OFFSETS]  = {"no-offsets", KIND_OFF, AT(offsets), PLAN, NULL, NULL, NULL, 0, NULL, "the budget is for what lives at once; give nothing an address"},
    [OPT_OUT]         = {"o", KIND_TEXT, AT(out), PLAN | GRAPH | PACK | PROFILE, NULL, "FILE", NULL, 0, NULL, "write the plan, graph, offsets or costs here; - is standard output"},
    [OPT_CAPACITY]    = {"capacity", KIND_TEXT, AT(capacity), PACK, NULL, "BYTES", NULL, 0, NULL, "how high the block may be: 1048576, 24GiB"},
    [OPT_MINIMIZE]    = {"minimize", KIND_FLAG, AT(minimize), PACK, NULL, NULL, NULL, 0, NULL, "look for the lowest block, until it is proved or the search is stopped"},
    [OPT_PLAN]        = {"plan", KIND_TEXT, AT(plan), DRAW | TIMELINE | TRAIN, NULL, "PLAN", NULL, 0, NULL, "as this plan runs it (default: everything is kept)"},
    [OPT_DEPTH]       = {"depth", KIND_COUNT, AT(depth), DRAW, NULL, "N", NULL, 1, NULL, "open N levels of modules (default: as many as 100 boxes allow)"},
    [OPT_TRAINING]    = {"training", KIND_FLAG, AT(training), DRAW, NULL, NULL, NULL, 0, NULL, "the whole step, side by side: forward, with backward, with the plan's recomputation"},
    [OPT_VIEW]        = {"view", KIND_CHOICE, AT(view), TIMELINE, NULL, "WHAT", "auto", 0, view_choice, "live memory, the address map of a plan with offsets, or what there is of both"},
    [OPT_PICTURE]     = {"o", KIND_TEXT, AT(out), SWEEP | DRAW | TIMELINE | TRAIN, NULL, "FILE", NULL, 0, NULL, "draw it (train: the loss) into this file: .svg, .png, .pdf or .dot"},
    [OPT_PER_OP]      = {"per-op", KIND_FLAG, AT(per_op), ESTIMATE, NULL, NULL, NULL, 0, NULL, "a line for each operator"},
    [OPT_TEST]        = {"test", KIND_LIST, AT(test), TRAIN, NULL, "NAME=FILE", NULL, 0, NULL, "data to test on when the training has ended, as in --data; may be repeated"},
    [OPT_STEPS]       = {"steps", KIND_COUNT, AT(steps), TRAIN | PROFILE, NULL, "N", NULL, 1, NULL, "how many steps to train (default: 10, profile: 5)"},
    [OPT_LR]          = {"lr", KIND_POSITIVE, AT(lr), TRAIN, NULL, "X", NULL, 0, NULL, "the learning rate (default: 0.001 for adam and adamw, else 0.01)"},
    [OPT_MOMENTUM]    = {"momentum", KIND_POSITIVE, AT(momentum), TRAIN, NULL, "X", NULL, 0, NULL, "of --optimizer momentum (default: 0.9)"},
    [OPT_NESTEROV]    = {"nesterov", KIND_FLAG, AT(nesterov), TRAIN, NULL, NULL, NULL, 0, NULL, "Nesterov's form of momentum"},
    [OPT_WEIGHT_DECAY]= {"weight-decay", KIND_POSITIVE, AT(weight_decay), TRAIN, NULL, "X", NULL, 0, NULL, "decoupled for adamw (default there: 0.01), else added to the gradient (default: none)"},
    [OPT_SCHEDULE]    = {"schedule", KIND_CHOICE, AT(schedule), TRAIN, NULL, "NAME", "constant", 0, schedule_choice, "how the learning rate goes down after the warm-up"},
    [OPT_WARMUP]      = {"warmup", KIND_COUNT, AT(warmup), TRAIN, NULL, "N", NULL, 0, NULL, "steps over which the learning rate rises (default: 0)"},
    [OPT_SAVE]        = {"save", KIND_TEXT, AT(save), TRAIN, NULL, "FILE", NULL, 0, NULL, "write parameters and state here (safetensors), at the end and as --save-every says"},
    [OPT_SAVE_EVERY]  = {"save-every", KIND_COUNT, AT(save_every), TRAIN, NULL, "N", NULL, 1, NULL, "save every N steps too"},
    [OPT_RESUME]      = {"resume", KIND_TEXT, AT(resume), TRAIN, NULL, "FILE", NULL, 0, NULL, "go on from what --save has written"},
    [OPT_NO_BEFORE]   = {"no-before", KIND_OFF, AT(before), TRAIN, NULL, NULL, NULL, 0, NULL, "do not run the same training with everything kept first"},
    [OPT_NO_GRAPH]    = {"no-graph", KIND_OFF, AT(captures), TRAIN, NULL, NULL, NULL, 0, NULL, "--device cuda: run every step call by call, not as a captured graph"},
    [OPT_PROFILE]     = {"profile", KIND_FLAG, AT(profile), TRAIN, NULL, NULL, NULL, 0, NULL, "say where the time goes, per operator"},
    [OPT_JSON]        = {"json", KIND_FLAG, AT(json), ESTIMATE | PLAN | CHECK | PACK | SWEEP | FIT | TRAIN, NULL, NULL, NULL, 0, NULL, "answer in JSON, with exact integers"},
    [OPT_HELP]        = {"help", KIND_FLAG, AT(help), EVERY, NULL, NULL, NULL, 0, NULL, "show this"},
};
/* clang-format on */
