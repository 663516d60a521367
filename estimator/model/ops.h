/* ops.h - the operator registry: one row per operator. Code reads rows instead of switching on an operator's kind.
 *
 * The rows are in ops.def. A row defines:
 *
 * - the arity and the use of each operand
 * - the output shapes (shape rule, shapes_*.c) and the evaluation on small known values (fold rule, fold_*.c)
 * - the supported memory layouts, and the FLOPs of products
 * - the values that gradients read, the split of backward into nodes, and the tensors that forward saves for backward
 *
 * An operator without a row is refused; the error names it. */
#pragma once

#include "estimator/model/model.h"

struct mp_fold; /* declared in fold.h */

/* The argument of shape and fold rules: one operator of a model during inference. */
typedef struct mp_infer {
    mp_model *model;
    mp_operator *op;
    mp_error *err;
    /* A shape rule may require a value that is known only at run time (such as the shape of a Reshape). The rule then stores
     * the index of that tensor here, and the shape declared in the file is used, if there is one. Otherwise -1. */
    int missing_value;
} mp_infer;

/* Shape rule: sets dtype and dims of every output that is not omitted, with mp_tensor_set. mp_infer_value returns the values
 * of inputs. MP_PARSE: the shapes do not match; the message names the operator (op->name). */
typedef mp_status (*mp_shape_rule)(mp_infer *c);
/* Fold rule: computes the values of the outputs (fold.h). Called after the shape rule, if every output has at most
 * MP_VALUE_MAX elements and the required input values are known. If the result is undefined (division by zero), returns
 * false, and the values of the outputs stay unknown. */
typedef bool (*mp_fold_rule)(const struct mp_fold *f);
/* FLOPs rule: returns the FLOPs of one forward run (a multiply-add is 2). Every gradient of a product has the same FLOPs. */
typedef double (*mp_flops_rule)(const mp_model *model, const mp_operator *op);

/* Bits for the values that the gradient of an input reads: */
#define MP_INPUTS (1u << 24)        /* all inputs, for variadic operators */
#define MP_UNBUILT (1u << 25)       /* this gradient is not implemented; a request for it is an error */
#define MP_IN(k) (1u << (k))        /* the gradient reads input k of the operator, k < 8 */
#define MP_OUT(k) (1u << (8 + (k))) /* the gradient reads output k of the operator, k < 8 */
/* the k-th saved output: forward writes it only for backward (mask, indices, statistics) */
#define MP_EXTRA(k) (1u << (16 + (k)))
enum { MP_GRADIENTS_MAX = 8, MP_EXTRAS_MAX = 4, MP_OP_INPUTS = 8 };

/* How the backward pass of an operator is split into nodes. */
typedef enum mp_gradient_form {
    MP_GRADIENT_NONE,    /* no gradient: the output is an integer or piecewise constant */
    MP_GRADIENT_REFUSED, /* the gradient exists mathematically but is not implemented; a request for it is an error */
    MP_GRADIENT_VIEW,    /* the output is a view of input 0; the gradient of input 0 is a view of the output's gradient */
    MP_GRADIENT_ALIAS,   /* addition: every operand with the output's shape uses the output's gradient as its own */
    MP_GRADIENT_ONE,     /* one node computes the gradients of all inputs that require a gradient */
    MP_GRADIENT_SPLIT /* one node for input 0 and one for input 1. The node of input 1 also computes the gradients of the inputs
                         from 2 on (biases) */
} mp_gradient_form;

/* The use of an input tensor that no operator computes. If a file does not state which tensors are trained, the ONNX reader
 * decides by these uses (formats/onnx/onnx_roles.c). */
typedef enum mp_input_use {
    MP_USE_UNSTATED,  /* the operator has no operand at this position */
    MP_USE_NONE,      /* the operand contains integers or booleans, such as indices: it is never trained */
    MP_USE_OTHER,     /* the operand can be anything: its use gives no hint about training */
    MP_USE_WEIGHT,    /* a weight: usually trained */
    MP_USE_ROWS,      /* like MP_USE_WEIGHT if the operator's axis is 0, because input 0 then has the rows of an embedding */
    MP_USE_STATISTIC, /* the operand is a running mean or variance of a normalization */
    MP_USE_SETTING,   /* a setting of the operator: a bound, a scale, a ratio */
    MP_USE_TABLE, /* an operand of elementwise arithmetic. If many operators read a tensor in this way, it is a fixed table and
                     not learned */
    MP_USE_COMPARED, /* the operand is only compared with another operand, so it has no gradient */
    MP_USE_THROUGH /* the same as the use of the operator's output, because the operator only rearranges or selects elements */
} mp_input_use;

/* The initial values of a parameter that is used as this operand (executor/data/parameters.c). */
typedef enum mp_initial {
    MP_INITIAL_UNSTATED, /* the operator has no operand at this position */
    MP_INITIAL_NONE,     /* the operand is never a parameter, so it needs no initial values */
    MP_INITIAL_SMALL,    /* the use is unknown: normal distribution with standard deviation 0.02 */
    MP_INITIAL_ZERO,
    MP_INITIAL_ONE,
    MP_INITIAL_QUARTER,
    MP_INITIAL_TERM,        /* zero for a vector (a bias); small values for higher ranks (position embeddings that are added) */
    MP_INITIAL_LEFT_MATRIX, /* uniform distribution within 1 / sqrt(fan-in), for a matrix of shape (outputs, inputs) */
    MP_INITIAL_RIGHT_MATRIX, /* like MP_INITIAL_LEFT_MATRIX, for a matrix of shape (inputs, outputs) */
    MP_INITIAL_FILTER,       /* like MP_INITIAL_LEFT_MATRIX, but for shape (outputs, inputs / groups, window) */
    MP_INITIAL_THROUGH /* the initial values that the reader of the output requires, because the output consists of elements of
                          this operand */
} mp_initial;

/* The meaning of the values in an operand: numbers, indices, class labels, ... Generated input data follows it
 * (executor/data/input_roles.c). */
typedef enum mp_input_meaning {
    MP_MEANS_NUMBER,  /* an ordinary number that is used in arithmetic */
    MP_MEANS_PASSED,  /* the same meaning as the output's elements, because the operator passes the elements on */
    MP_MEANS_INDEX,   /* an index into input 0, along the axis that the attribute `axis` states */
    MP_MEANS_INDICES, /* a tuple of indices along the last dimension: one index for each leading dimension of input 0 after the
                         first `batch_dims` */
    MP_MEANS_CLASS,   /* a class index, less than the scalar that input 1 contains */
    MP_MEANS_LENGTH,  /* a length: the number of time steps of a sample in input 0 that are used */
    MP_MEANS_ANGLE,   /* an angle: argument of a sine or cosine */
    MP_MEANS_CONDITION, /* a condition: true selects the element of input 1, false the element of input 2 */
    MP_MEANS_HIDING,    /* a mask that is added to attention scores: very negative for a hidden score */
    MP_MEANS_SEEN /* a boolean mask of attention scores. With attribute `keeps` 1, true keeps the score; otherwise true replaces
                     it */
} mp_input_meaning;

typedef struct mp_op_input {
    mp_input_use use;
    mp_initial initial;
    mp_input_meaning meaning;
} mp_op_input;

/* The memory layouts (mp_layout) that an operator accepts for its inputs and writes for its outputs. */
typedef enum mp_layout_habit {
    MP_HABIT_ROW_MAJOR,      /* the operator reads its inputs in any layout, and writes row-major */
    MP_HABIT_FROM_ROW_MAJOR, /* like MP_HABIT_ROW_MAJOR, but input 0 must also be row-major, because the output is a view of
                                input 0 */
    MP_HABIT_MATRICES,       /* the operator reads and writes row-major, so that the last two dimensions are matrices */
    MP_HABIT_AS_INPUTS, /* the operator accepts any layout that all its inputs share, and writes its outputs in this layout */
    MP_HABIT_SPATIAL    /* any layout, but fastest if input 0 and the outputs are channels-last */
} mp_layout_habit;

/* Traits, bits of mp_op.traits. */
#define MP_TRAIT_RANDOM (1u << 0)   /* the operator uses random numbers: it is never merged with another operator */
#define MP_TRAIT_IN_PLACE (1u << 1) /* an output may reuse the memory of an input of the same size at the input's last use */
#define MP_TRAIT_GRADIENT_IN_PLACE (1u << 2) /* an input's gradient may overwrite the output's gradient at its last use */
#define MP_TRAIT_STATISTICS (1u << 3) /* batch normalization: the first run of a step reads and updates running statistics */
#define MP_TRAIT_GATHER (1u << 4)   /* input 1 contains indices of rows of input 0; the operator reads only the selected rows */
#define MP_TRAIT_NEGATES (1u << 5)  /* only for ALIAS: the gradient of input 1 is the negated gradient of the output (Sub) */
#define MP_TRAIT_COMMUTES (1u << 6) /* swapping the two operands gives bit-identical results */
#define MP_TRAIT_CASTS (1u << 7)    /* the operator converts input 0 to another element type */
#define MP_TRAIT_CONVOLVES (1u << 8)    /* convolution: input 1 is a weight, which a backend may store in its own layout */
#define MP_TRAIT_TRANSPOSED (1u << 9)   /* transposed convolution: the first dimension of the weight is the input channels */
#define MP_TRAIT_LOSS (1u << 10)        /* the operator is a loss: it compares input 0 with the targets in input 1 */
#define MP_TRAIT_CLASSES (1u << 11)     /* the loss has class indices as targets; dimension 1 of the scores is the class */
#define MP_TRAIT_FROM_OUTPUT (1u << 12) /* normalization: backward can use output, scale and shift instead of the input */
#define MP_TRAIT_TILED (1u << 13)       /* attention: backward recomputes the scores tile by tile */
#define MP_TRAIT_GRADIENT_IN_DATA (1u << 19) /* a gradient may overwrite input 0 of the same shape at its last use */
#define MP_TRAIT_OF_SHAPE (1u << 20)         /* the value of the output depends only on the shape of the input */
#define MP_TRAIT_REPLICATES (1u << 22)       /* the output equals the input; the input's gradient is a sum over ranks */
#define MP_TRAIT_SMOOTH (1u << 21) /* differentiable everywhere: gradients need no convention at ties, borders or zeros */
/* The following traits describe the operator in PyTorch, for PyTorch's rules: */
#define MP_TRAIT_PARTS (1u << 14)    /* the output is a strided view of a part of the input (slice, split) */
#define MP_TRAIT_PERMUTES (1u << 15) /* the output is a strided view with permuted dimensions (transposition) */
#define MP_TRAIT_EXPANDS (1u << 16)  /* the output is a strided view with repeated elements */
#define MP_TRAIT_PADS (1u << 17) /* pads input 0; a view of input 0 if all readers of the output have MP_TRAIT_PADS_ITSELF */
#define MP_TRAIT_PADS_ITSELF (1u << 18) /* pooling, which in PyTorch pads its own input; exporters write a separate Pad */

/* The behaviour of an operator under torch.autocast on a GPU, according to the lists of PyTorch 2.15 (ATen/autocast_mode.h). */
typedef enum mp_autocast {
    MP_AUTOCAST_NONE,   /* on no list: the operator computes in the type of its operands */
    MP_AUTOCAST_LOW,    /* autocast casts the operands to 16 bits; the output has 16 bits */
    MP_AUTOCAST_FULL,   /* autocast casts the operands to float32, so the operator computes in float32 */
    MP_AUTOCAST_WIDENED /* the operator reads operands of any floating-point type and writes float32 */
} mp_autocast;

/* A saved output: a tensor that a forward run writes only for backward. A rule fills `extras` and returns their number (0 ..
 * MP_EXTRAS_MAX). */
typedef struct mp_extra {
    const char *name;  /* name in reports: "indices", "mean" */
    mp_dtype dtype;    /* element type of the tensor; its elements are contiguous */
    int64_t bytes;     /* bytes of the tensor, a multiple of the element's size */
    int64_t gpu_bytes; /* bytes that PyTorch's GPU kernel saves instead; 0: the same number as `bytes` */
} mp_extra;
typedef int (*mp_extras_rule)(const mp_model *model, const mp_operator *op, mp_rules rules, mp_extra extras[MP_EXTRAS_MAX]);

/* The collective that an operator runs to exchange data with other ranks. */
typedef enum mp_operator_collective {
    MP_OPERATOR_NOTHING,
    MP_OPERATOR_ALL_REDUCE,
    MP_OPERATOR_ALL_GATHER,
    MP_OPERATOR_REDUCE_SCATTER,
    MP_OPERATOR_ALL_TO_ALL /* an all-to-all over the ranks of expert parallelism (ep). The other collectives run over the ranks
                             of tensor parallelism (tp) */
} mp_operator_collective;

struct mp_operand_factors; /* declared in factors.h */
/* Factor rule: writes the splitting factors of the operator (factors.h). Returns false if the operator cannot be split. */
typedef bool (*mp_factor_rule)(const mp_model *model, const mp_operator *op, struct mp_operand_factors *factors);

typedef struct mp_op {
    const char *name, *domain;
    int since; /* first version of the operator set for which this row is valid */
    /* `min_in`, `max_in`: smallest and largest permitted number of inputs; `min_out`, `max_out`: of outputs. Maximum -1: any
     * number */
    int min_in, max_in, min_out, max_out;
    mp_op_input inputs[MP_OP_INPUTS]; /* per input: its use, initial values and meaning (mp_op_input_of) */
    mp_shape_rule shape;
    mp_fold_rule fold;   /* rule that computes the values of outputs from known inputs; NULL: the operator is never folded */
    mp_flops_rule flops; /* rule for the FLOPs of a product; NULL: the operator is not a product */
    mp_layout_habit layout;
    unsigned traits;
    mp_autocast autocast;
    mp_gradient_form gradient;
    /* needs[rules][k]: the values that the gradient of input k reads, besides the gradients of the outputs. For further
     * inputs of a variadic operator, the last stated entry holds. */
    uint32_t needs[MP_N_RULES][MP_GRADIENTS_MAX];
    mp_extras_rule extras;                 /* rule for the tensors that forward saves only for backward; NULL: there are none */
    mp_factor_rule factors;                /* rule for splitting the operator over ranks; NULL: the operator cannot be split */
    mp_operator_collective collectives[2]; /* collectives that the operator runs in forward, and in backward */
    const struct mp_requirement
        *requirements; /* requirements on operands and attributes (requirement.h); NULL: no requirements */
} mp_op;

/* Returns the newest row of an operator type with since <= version; NULL: no such row. "ai.onnx" and "" are the same domain.
 * Linear search over the rows (below a microsecond), done once per operator; mp_operator.op stores the result. */
const mp_op *mp_op_find(const char *domain, const char *kind, int version);
/* These functions give access to all rows of the operator registry in the order of ops.def, for tables and tests. */
size_t mp_op_count(void);
const mp_op *mp_op_row(size_t k);
/* Returns use, initial values and meaning of input k. For further inputs of a variadic operator, the last stated input
 * holds. The use is UNSTATED if the operator has no such input, or no row (op NULL). */
mp_op_input mp_op_input_of(const mp_op *op, int k);
/* True if each output element depends on one element of each operand, as in Relu or Add. */
bool mp_op_is_elementwise(const mp_op *op);
/* True if, under the executor's or PyTorch's rules, a gradient of the operator reads output k. */
bool mp_op_gradient_reads_output(const mp_op *op, int k);
