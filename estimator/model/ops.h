/* ops.h - the operator registry: one row per operator. All code reads the rows instead of switching on an operator's kind.
 *
 * The rows are in ops.def. A row says what the operator looks like (arity) and what its operands are for, how its output
 * shapes follow from its inputs (shape rule, shapes_*.c), how it is evaluated on small known values (fold rule, fold_*.c),
 * which layouts in memory it works in, what it costs (FLOPs of products), which values its gradients read, how its backward is
 * cut into nodes, and what forward saves for them. An operator without a row is refused by name.
 */
#pragma once

#include "estimator/model/model.h"

struct mp_fold; /* fold.h */

/* What the rules see: one operator of a model that is being completed. */
typedef struct mp_infer {
    mp_model *model;
    mp_operator *op;
    mp_error *err;
    /* Set by a shape rule that needs the value of a tensor known only when the step runs (Reshape by a computed shape):
     * the index of that tensor. The file's declared shape is then used, if there is one. -1 otherwise. */
    int missing_value;
} mp_infer;

/* Sets dtype and dims of every output that is not left out, with mp_tensor_set. Values of inputs come from
 * mp_infer_value. MP_PARSE for shapes that do not fit together; the message names the operator (op->name). */
typedef mp_status (*mp_shape_rule)(mp_infer *c);
/* Computes the values of the outputs (fold.h). Called after the shape rule, only if every output has at most
 * MP_VALUE_MAX elements and the input values that it reads are known. Returns false if undefined (division by zero):
 * outputs stay unknown. */
typedef bool (*mp_fold_rule)(const struct mp_fold *f);
/* Returns the FLOPs of one forward run (a multiply-add is 2). Every gradient of a product costs the same again. */
typedef double (*mp_flops_rule)(const mp_model *model, const mp_operator *op);

/* Bits that name the values which a gradient reads: */
#define MP_INPUTS (1u << 24)           /* every input, however many there are (variadic operators) */
#define MP_UNBUILT (1u << 25)          /* this gradient is not built: an error when it is asked for */
#define MP_IN(k) (1u << (k))           /* the k-th input, k < 8 */
#define MP_OUT(k) (1u << (8 + (k)))    /* the k-th output, k < 8 */
#define MP_EXTRA(k) (1u << (16 + (k))) /* the k-th extra: a tensor that only backward sees (mask, indices, statistics) */

enum { MP_GRADIENTS_MAX = 8, MP_EXTRAS_MAX = 4, MP_OP_INPUTS = 8 };

/* How an operator's backward is cut into nodes. */
typedef enum mp_gradient_form {
    MP_GRADIENT_NONE,    /* integer or piecewise constant: no gradient flows through */
    MP_GRADIENT_REFUSED, /* the gradient exists, but is not built: an error when it is asked for */
    MP_GRADIENT_VIEW,    /* the output is a view of input 0, and so is its gradient */
    MP_GRADIENT_ALIAS,   /* addition: the gradient of every operand of the output's shape is the output's gradient itself */
    MP_GRADIENT_ONE,     /* one node gives the gradients of all inputs that need one */
    MP_GRADIENT_SPLIT    /* one node per input for inputs 0 and 1; inputs from 2 on (biases) come with input 1 */
} mp_gradient_form;

/* How an operand uses a tensor from outside. Readers of files that do not say which tensors are trained go by it
 * (formats/onnx/onnx_roles.c). */
typedef enum mp_input_use {
    MP_USE_UNSTATED,  /* no such operand */
    MP_USE_NONE,      /* whole numbers or booleans: never trained */
    MP_USE_OTHER,     /* anything: it tells nothing about training */
    MP_USE_WEIGHT,    /* usually trained */
    MP_USE_ROWS,      /* as WEIGHT where the operator's axis is 0: rows of an embedding */
    MP_USE_STATISTIC, /* running mean and variance */
    MP_USE_SETTING,   /* how the operator works: bounds, scales, ratios */
    MP_USE_TABLE,     /* elementwise arithmetic: a tensor that many operators read so is a table, not learned */
    MP_USE_COMPARED,  /* only compared: no gradient */
    MP_USE_THROUGH    /* used as the operator's output is used: the operator rearranges or selects */
} mp_input_use;

/* The first values of a parameter that is read there (executor/data/parameters.c). */
typedef enum mp_initial {
    MP_INITIAL_UNSTATED, /* no such operand */
    MP_INITIAL_NONE,     /* never a parameter */
    MP_INITIAL_SMALL,    /* unknown use: normal, deviation 0.02 */
    MP_INITIAL_ZERO,
    MP_INITIAL_ONE,
    MP_INITIAL_QUARTER,
    MP_INITIAL_TERM,         /* zero for a vector (a bias), small for more (positions that are added) */
    MP_INITIAL_LEFT_MATRIX,  /* uniform within 1 / sqrt(fan-in), of (outputs, inputs) */
    MP_INITIAL_RIGHT_MATRIX, /* as LEFT_MATRIX, of (inputs, outputs) */
    MP_INITIAL_FILTER,       /* as LEFT_MATRIX, of (outputs, inputs / groups, window) */
    MP_INITIAL_THROUGH       /* what the reader of the output asks for, whose elements the operand's are, or are parts
                              * of */
} mp_initial;

/* The meaning of an element of an operand (executor/data/input_roles.c). */
typedef enum mp_input_meaning {
    MP_MEANS_NUMBER,    /* a number to compute with */
    MP_MEANS_PASSED,    /* the meaning that the output's element has */
    MP_MEANS_INDEX,     /* counts along the operator's axis of input 0 */
    MP_MEANS_INDICES,   /* the last dimension holds one count for each of input 0's first dimensions behind `batch_dims` */
    MP_MEANS_CLASS,     /* a class, less than the single number in input 1 */
    MP_MEANS_LENGTH,    /* a length: how many of the time steps of input 0 are used */
    MP_MEANS_ANGLE,     /* the angle of a sine or cosine */
    MP_MEANS_CONDITION, /* a condition that selects input 1 where it is true, else input 2 */
    MP_MEANS_HIDING,    /* added to attention scores: very negative where a score is hidden */
    MP_MEANS_SEEN       /* true where attention scores are kept, if the attribute `keeps` is 1, else where they are replaced */
} mp_input_meaning;

typedef struct mp_op_input {
    mp_input_use use;
    mp_initial initial;
    mp_input_meaning meaning;
} mp_op_input;

/* Which layouts in memory (mp_layout) an operator reads and writes. */
typedef enum mp_layout_habit {
    MP_HABIT_ROW_MAJOR,      /* reads any layout, writes row-major */
    MP_HABIT_FROM_ROW_MAJOR, /* reads input 0 row-major too: its output is a view */
    MP_HABIT_MATRICES,       /* reads all inputs row-major, so that their last two dimensions are matrices, and writes so */
    MP_HABIT_AS_INPUTS,      /* works in any layout that its inputs share, and writes that */
    MP_HABIT_SPATIAL         /* fastest with channels last: input 0 and outputs */
} mp_layout_habit;

/* Traits, bits of mp_op.traits. */
#define MP_TRAIT_RANDOM (1u << 0)            /* draws random numbers: never merged with another operator */
#define MP_TRAIT_IN_PLACE (1u << 1)          /* an output may take the place of a dying input of the same size */
#define MP_TRAIT_GRADIENT_IN_PLACE (1u << 2) /* an input's gradient may overwrite the output's gradient, if it is dead then */
#define MP_TRAIT_STATISTICS (1u << 3)        /* batch normalization: its first run reads and updates running statistics */
#define MP_TRAIT_GATHER (1u << 4)       /* input 1 holds indices of rows of input 0; moves only as many bytes as it writes */
#define MP_TRAIT_NEGATES (1u << 5)      /* ALIAS only: the gradient of input 1 is the negative of the output's (Sub) */
#define MP_TRAIT_COMMUTES (1u << 6)     /* two operands in either order give the same bits */
#define MP_TRAIT_CASTS (1u << 7)        /* converts the numbers of input 0 to another type */
#define MP_TRAIT_CONVOLVES (1u << 8)    /* convolution: input 1 is a filter, which a backend may keep in a layout of its own */
#define MP_TRAIT_TRANSPOSED (1u << 9)   /* convolution: the filter's first dimension counts inputs, the window is spread */
#define MP_TRAIT_LOSS (1u << 10)        /* compares input 0 with the targets in input 1 */
#define MP_TRAIT_CLASSES (1u << 11)     /* loss: targets are numbers of classes, scores have classes as dimension 1 */
#define MP_TRAIT_FROM_OUTPUT (1u << 12) /* normalization: backward may start from output, scale and shift, not the input */
#define MP_TRAIT_TILED (1u << 13)       /* attention: backward recomputes the inner product, tile by tile */
#define MP_TRAIT_GRADIENT_IN_DATA (1u << 19) /* gradients of input 0's shape may take its memory when it is dead */
#define MP_TRAIT_OF_SHAPE (1u << 20)         /* the output's value follows from the input's shape alone */
#define MP_TRAIT_REPLICATES (1u << 22)       /* the output is the input itself, and the gradient is a sum over ranks */
#define MP_TRAIT_SMOOTH (1u << 21)           /* has a derivative everywhere: nobody chooses one at ties, borders or zeros */
/* How PyTorch sees an operator, for its rules: */
#define MP_TRAIT_PARTS (1u << 14)       /* a strided view of a part of its input (slice, split) */
#define MP_TRAIT_PERMUTES (1u << 15)    /* a strided view in another order (transposition) */
#define MP_TRAIT_EXPANDS (1u << 16)     /* a strided view that repeats elements */
#define MP_TRAIT_PADS (1u << 17)        /* pads; a view if only operators with PADS_ITSELF read its output */
#define MP_TRAIT_PADS_ITSELF (1u << 18) /* pooling that pads by itself in PyTorch, without the Pad that exporters write */

/* How torch.autocast runs an operator on a GPU: PyTorch 2.15, ATen/autocast_mode.h, the lists of lower precision and of fp32.
 */
typedef enum mp_autocast {
    MP_AUTOCAST_NONE,   /* on neither list: it runs in the type of its operands */
    MP_AUTOCAST_LOW,    /* operands are cast to 16 bits, in which it also writes */
    MP_AUTOCAST_FULL,   /* operands are cast to float32 */
    MP_AUTOCAST_WIDENED /* reads operands of any type, and writes float32 */
} mp_autocast;

/* A tensor that a forward run saves for backward. A rule fills `extras` and returns how many there are (0..MP_EXTRAS_MAX). */
typedef struct mp_extra {
    const char *name;  /* "indices", "mean": for people */
    mp_dtype dtype;    /* of its elements, which are contiguous */
    int64_t bytes;     /* a multiple of the element's size */
    int64_t gpu_bytes; /* what PyTorch's kernel for GPUs saves in its place; 0: as many */
} mp_extra;
typedef int (*mp_extras_rule)(const mp_model *model, const mp_operator *op, mp_rules rules, mp_extra extras[MP_EXTRAS_MAX]);

/* What an operator sends to other ranks. */
typedef enum mp_crossing {
    MP_CROSSES_NOTHING,
    MP_CROSSES_ALL_REDUCE,
    MP_CROSSES_ALL_GATHER,
    MP_CROSSES_REDUCE_SCATTER,
    MP_CROSSES_ALL_TO_ALL /* of ep; the others are of tp */
} mp_crossing;

struct mp_operand_factors; /* factors.h */
/* Fills in which dimensions go together when the operator is split; false: it cannot be split here. */
typedef bool (*mp_factor_rule)(const mp_model *model, const mp_operator *op, struct mp_operand_factors *factors);

typedef struct mp_op {
    const char *name, *domain;
    int since;                            /* the first version of the operator set with this meaning */
    int min_in, max_in, min_out, max_out; /* -1: any number */
    mp_op_input inputs[MP_OP_INPUTS];     /* per input (mp_op_input_of) */
    mp_shape_rule shape;
    mp_fold_rule fold;   /* NULL: never folded */
    mp_flops_rule flops; /* NULL: no product */
    mp_layout_habit layout;
    unsigned traits;
    mp_autocast autocast;
    mp_gradient_form gradient;
    /* needs[rules][k]: the values that the gradient of input k reads, besides the gradients of the outputs. Inputs past the
     * last stated one need what the last one needs (variadic operators). */
    uint32_t needs[MP_N_RULES][MP_GRADIENTS_MAX];
    mp_extras_rule extras;                     /* NULL: none */
    mp_factor_rule factors;                    /* NULL: it is not split */
    mp_crossing crosses[2];                    /* what crosses ranks in forward, and in backward */
    const struct mp_requirement *requirements; /* what must hold of operands and attributes (requirement.h); NULL: nothing */
} mp_op;

/* Returns the row for an operator, the newest one with since <= version; NULL if there is none. "ai.onnx" and "" are one
 * domain. A scan of the rows (a fraction of a microsecond), done once per operator: mp_operator.op remembers it. */
const mp_op *mp_op_find(const char *domain, const char *kind, int version);
/* All rows, in the order of ops.def, for tables and tests. */
size_t mp_op_count(void);
const mp_op *mp_op_row(size_t k);
/* Returns the use of input k; inputs past the last stated one of a variadic operator are used as that one. UNSTATED if
 * there is no such input, or no row (op NULL). */
mp_op_input mp_op_input_of(const mp_op *op, int k);
/* True if a gradient of the operator reads its k-th output, under any rules. */
bool mp_op_gradient_reads_output(const mp_op *op, int k);
