/* model.h - a network as stored in its file: operators, tensors and attributes, with all dimensions known.
 *
 * A reader in formats/ builds a model (or a caller, through the functions below). mp_model_infer (infer.h) completes it, and
 * mp_model_simplify (simplify.h) simplifies it. The model's pool owns all its data until mp_model_free. Indices identify
 * tensors and operators and never change; removed operators are only marked. */
#pragma once

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "estimator/base/memory.h"
#include "estimator/model/doubts.h"
#include "memplan/error.h"
#include "memplan/model.h"

enum { MP_VALUE_MAX = 1 << 17 }; /* maximum number of elements of a stored value */

/* The elements of a tensor, row-major: integers and booleans in `i`, floats in `f`. */
typedef struct mp_value {
    int64_t n;
    bool is_real;
    union {
        int64_t *i;
        double *f;
    };
} mp_value;

/* Returns n zeroed elements in the model's pool; NULL: out of memory. */
mp_value *mp_value_new(mp_model *model, int64_t n, bool is_real);

struct mp_operator;

typedef enum mp_attribute_kind {
    MP_ATTRIBUTE_INT,
    MP_ATTRIBUTE_FLOAT,
    MP_ATTRIBUTE_TEXT, /* a list of strings is stored as one string, separated by commas */
    MP_ATTRIBUTE_INTS,
    MP_ATTRIBUTE_FLOATS,
    MP_ATTRIBUTE_TENSOR, /* dtype, rank, dims; value only if small and numeric */
    MP_ATTRIBUTE_OTHER   /* present, but of a kind that no rule reads: graphs, sparse tensors, types */
} mp_attribute_kind;

typedef struct mp_attribute {
    const char *name;
    mp_attribute_kind kind;
    int64_t i;        /* value of an attribute of kind INT */
    double f;         /* value of an attribute of kind FLOAT */
    const char *text; /* value of an attribute of kind TEXT */
    size_t n;         /* number of elements, for kinds INTS and FLOATS */
    int64_t *ints;
    double *floats;
    mp_dtype dtype; /* element type, for kind TENSOR */
    int rank;
    int64_t *dims;
    mp_value *value; /* elements, for kind TENSOR; NULL: too many, or absent */
} mp_attribute;

/* Return an attribute for an operator draft. The attribute points to the argument, which is not copied. */
mp_attribute mp_attribute_int(const char *name, int64_t i);
mp_attribute mp_attribute_float(const char *name, double f);
mp_attribute mp_attribute_ints(const char *name, const int64_t *ints, size_t n);

/* Makes a deep copy of from[0..n). *out is untouched on failure. MP_NOMEM. */
mp_status mp_attributes_copy(mp_model *model, const mp_attribute *from, size_t n, mp_attribute **out, mp_error *err);

/* Return the value of an attribute, or `otherwise` if the attribute is absent or has another kind. */
const mp_attribute *mp_operator_attribute(const struct mp_operator *op,
                                          const char *name); /* NULL: the operator lacks the attribute */
int64_t mp_operator_int(const struct mp_operator *op, const char *name, int64_t otherwise);
double mp_operator_float(const struct mp_operator *op, const char *name, double otherwise);
const char *mp_operator_text(const struct mp_operator *op, const char *name, const char *otherwise);
/* Returns *n elements; NULL and *n 0 if the attribute is absent. */
const int64_t *mp_operator_ints(const struct mp_operator *op, const char *name, size_t *n);

enum { MP_RANK_MAX = 32 }; /* maximum rank; more dimensions are refused */

/* The source of a tensor's data. */
typedef enum mp_role {
    MP_ROLE_ACTIVATION, /* a result of an operator */
    MP_ROLE_DATA,       /* a data input, such as the batch: new values in every step */
    MP_ROLE_PARAMETER,  /* a parameter: trained, unless frozen */
    MP_ROLE_BUFFER,     /* kept between steps but not trained: running statistics of batch normalization, masks */
    MP_ROLE_CONSTANT    /* fixed in the file, or folded from constants */
} mp_role;
const char *mp_role_name(mp_role role);

/* Known structure of a square boolean mask that is too large to store, or not in the file. Bytes count as booleans: nonzero is
 * true. */
typedef enum mp_mask {
    MP_MASK_UNKNOWN,
    MP_MASK_PAST,  /* true for the elements on and below the diagonal of the last two dimensions, which a causal mask keeps;
                      false for all others */
    MP_MASK_FUTURE /* true for the elements above the diagonal, which a causal mask hides; false for all others */
} mp_mask;

/* How a backend stores a tensor, decided when the backend prepares a network. All zero means PLAIN. */
typedef enum mp_layout {
    MP_LAYOUT_PLAIN,        /* row-major, in the order of its dimensions */
    MP_LAYOUT_CHANNELS_LAST /* the second dimension innermost: (N, C, H, W) is stored as N, H, W, C */
} mp_layout;
typedef struct mp_stored {
    mp_layout layout;
    const void *packed;      /* the backend's own description of a packed weight; NULL: `layout` applies */
    int64_t packed_elements; /* number of elements of the packed weight, padding included */
} mp_stored;

/* A list of tensors (ONNX type "sequence"), stored in the model's pool and immutable. */
typedef struct mp_sequence {
    int n;
    int *items; /* indices of the tensors in the sequence */
    struct mp_sequence_block {
        int used, size;
    } * block; /* the memory block that contains `items`. Longer sequences with these first tensors may share the block. NULL:
                  the sequence is empty */
} mp_sequence;
typedef struct mp_sequence_block mp_sequence_block;

/* The shard of a tensor in a model split over ranks. Dimension `dim` is divided into `outer` runs of equal length. Each rank
 * holds an equal share of every run, in rank order. */
typedef struct mp_tensor_part {
    int dim;
    int64_t outer, ranks;
    const int64_t *dims; /* dimensions of the whole tensor, before sharding */
    mp_value *value;     /* elements of the whole tensor, before sharding; NULL: not known */
} mp_tensor_part;

typedef struct mp_tensor {
    const char *name;
    mp_dtype dtype;
    int rank;                /* number of dimensions; -1: unknown */
    int64_t *dims;           /* sizes of the dimensions, each >= 0 */
    mp_dtype declared_dtype; /* type declared in the file; UNDEFINED: none */
    int declared_rank;       /* rank declared in the file; -1: none */
    int64_t *declared_dims;  /* declared sizes; -1 for an open dimension */
    mp_role role;
    const char *source;      /* source line in the user's program, "net.py:12: return x"; NULL: unknown */
    const char *role_reason; /* the rule that chose the role, for reports: "named with --data" */
    int producer;            /* the operator that writes the tensor; -1: it comes from outside */
    mp_value *value;         /* the tensor's elements, if known at this time; NULL: unknown */
    mp_mask mask;            /* structure of a boolean mask without `value`; UNKNOWN if there is a value */
    bool is_output;          /* true for a tensor that the model declares as an output */
    bool is_target;          /* a target input of the appended loss */
    bool is_frozen;          /* a parameter that is not trained, because adapters are trained instead (adapters.h) */
    bool is_summed; /* each rank of a split model holds only a partial sum of this parameter's gradient (parallel/split.h) */
    bool is_spread; /* a parameter of experts; other ranks hold other experts (parallel/experts.h) */
    bool starts_at_zero;        /* a parameter with initial values 0, regardless of its use */
    bool is_formal;             /* formal parameter: a placeholder for a value that a control operator passes to its region */
    mp_sequence *sequence;      /* NULL: an ordinary tensor. Otherwise a list of tensors, known after mp_model_infer */
    const mp_tensor_part *part; /* the shard of each rank in a split model (parallel/split.h); NULL: replicated */
    mp_stored stored;           /* how the backend stores this tensor */
    int replaced_by;            /* the tensor that replaced this one during simplification; -1: none */
} mp_tensor;

/* Return the dimensions and the value of the whole tensor, also if ranks hold shards. */
static inline const int64_t *mp_tensor_whole_dims(const mp_tensor *t)
{
    return t->part ? t->part->dims : t->dims;
}
static inline mp_value *mp_tensor_whole_value(const mp_tensor *t)
{
    return t->part ? t->part->value : t->value;
}

/* The type of control operator (an operator with subgraphs). */
typedef enum mp_control { MP_CONTROL_NONE, MP_CONTROL_IF, MP_CONTROL_LOOP, MP_CONTROL_SCAN } mp_control;

/* The reason why the source program may have executed the operator in another way than the file states; its memory may then
 * differ. */
typedef enum mp_guess {
    MP_GUESS_NONE,
    MP_GUESS_FORMULA, /* several operators were fused into one, but the program may have run them one by one */
    MP_GUESS_LOOP     /* a loop was unrolled, but the program may have run it as one operator */
} mp_guess;

struct mp_op; /* a row of the operator registry (ops.h) */

typedef struct mp_operator {
    const char *name;       /* unique: the name in the file, or a name built from its kind and first output */
    const char *kind;       /* operator type, such as "Conv" */
    const char *domain;     /* domain of the operator type; "" is ai.onnx */
    int version;            /* version of the domain's operator set, as imported by the file */
    const struct mp_op *op; /* registry row; NULL until mp_model_infer */
    int n_in, n_out;
    int *in, *out; /* indices of input and output tensors; -1: an omitted operand */
    size_t n_attributes;
    mp_attribute *attributes;
    int number;         /* 1 + the operator's index before the model was split or adapted to a backend; 0: not recorded */
    const char *call;   /* the call in the source program, as recorded by the exporter; NULL: none */
    bool removed;       /* true if folding or simplification has removed the operator */
    mp_guess guess;     /* why the source program may have executed it in another way */
    int region;         /* the region that contains it; 0: the graph itself */
    mp_control control; /* type of control operator, as long as its regions[] exist */
    int regions[2];     /* indices of the operator's subgraphs in model->regions; 0: none */
} mp_operator;

/* A subgraph of a control operator (If, Loop, Scan). Its operators are in the model's common list. Its results are additional
 * operands of the control operator, so that sorting places the region before the operator. mp_model_infer removes all
 * regions. */
typedef struct mp_region {
    int outer;          /* the region that contains the control operator */
    const char *prefix; /* prefix of the names of its tensors and operators: "/If#then" */
    int n_formals, n_results;
    int *formals, *results; /* tensor indices; results may be tensors from outside the region */
} mp_region;

struct mp_model {
    const char *name;            /* the file's base name without its ending */
    const char *path;            /* the user's path, for messages; "": none */
    const char *external_folder; /* second folder for external weights, in addition to the file's folder; NULL: none */
    mp_pool *pool;
    size_t n_tensors, tensors_capacity;
    mp_tensor *tensors;
    size_t n_operators, operators_capacity;
    mp_operator *operators; /* operators in file order, and after mp_model_sort in execution order */
    size_t n_regions, regions_capacity;
    mp_region *regions;    /* regions (subgraphs); region 0 is the main graph. A model without control operators has none */
    int *inputs, *outputs; /* tensor indices: declared inputs without initializers; declared outputs */
    size_t n_inputs, n_outputs, inputs_capacity, outputs_capacity;
    int folded_norms;             /* batch normalizations that the exporter has folded into other operators */
    bool is_of_newer_exporter;    /* PyTorch's torch.onnx.export with dynamo=True has written the file */
    mp_doubt doubts[MP_N_DOUBTS]; /* per kind of doubt: weights whose role the file does not state */
    struct mp_names *names;       /* map from a tensor's name to its index */
    struct mp_names *tensor_numbers, *operator_numbers; /* name stem -> the next number to append */
};

/* Creates an empty model. On MP_OK release *out with mp_model_free. MP_NOMEM. */
mp_status mp_model_new(const char *name, const char *path, mp_model **out, mp_error *err);

/* Returns the tensor with this name; -1: none. O(1). */
int mp_model_find(const mp_model *model, const char *name);

/* Finds the tensor with this name, or adds it as an activation of unknown type and rank without producer. MP_NOMEM. */
mp_status mp_model_tensor(mp_model *model, const char *name, int *index, mp_error *err);
/* Adds a tensor named `stem`; if the name exists, a number is appended. MP_NOMEM. */
mp_status mp_model_fresh_tensor(mp_model *model, const char *stem, int *index, mp_error *err);

/* An operator to be added; everything is copied. */
typedef struct mp_operator_draft {
    const char *name; /* name of the operator; NULL or "": a name is generated */
    const char *kind, *domain;
    int version;
    const int *in, *out; /* indices of input and output tensors; -1: an omitted operand */
    int n_in, n_out;
    const mp_attribute *attributes; /* attributes; the new operator gets deep copies */
    size_t n_attributes;
} mp_operator_draft;

/* Return a draft without outputs and with a generated name: of this kind, or with the kind and attributes of `op`. */
mp_operator_draft mp_draft(const char *kind, const char *domain, int version, const int *in, int n_in,
                           const mp_attribute *attributes, size_t n_attributes);
mp_operator_draft mp_draft_like(const mp_operator *op, const int *in, int n_in);

/* Appends an operator, which becomes the producer of its outputs. MP_PARSE: an output already has a producer, or the operator
 * reads its own output. MP_NOMEM. Pointers into model->operators become invalid. */
mp_status mp_model_operator(mp_model *model, const mp_operator_draft *draft, int *index, mp_error *err);

/* Marks a tensor as declared input or output. MP_NOMEM. */
mp_status mp_model_declare_input(mp_model *model, int tensor, mp_error *err);
mp_status mp_model_declare_output(mp_model *model, int tensor, mp_error *err);

/* Sets type and shape; dims are copied. MP_PARSE: rank over MP_RANK_MAX, a negative dimension, or bytes beyond int64_t.
 * MP_NOMEM. */
mp_status mp_tensor_set(mp_model *model, int tensor, mp_dtype dtype, int rank, const int64_t *dims, mp_error *err);

/* Adds a constant of this type and shape, with a name based on `stem`. Its elements in *value are zero until the caller sets
 * them. MP_NOMEM. */
mp_status mp_model_constant(mp_model *model, const char *stem, mp_dtype dtype, int rank, const int64_t *dims, int *tensor,
                            mp_value **value, mp_error *err);

/* Return the elements and bytes of a tensor with known shape. 4-bit types are rounded up to whole bytes; strings count 0. */
int64_t mp_tensor_elements(const mp_tensor *tensor);
int64_t mp_stored_elements(const mp_tensor *tensor); /* stored elements: more if the backend's layout adds padding */
int64_t mp_tensor_bytes(const mp_tensor *tensor);

/* True if the shapes are known and both tensors have the same type and dimensions. */
bool mp_same_shape(const mp_tensor *a, const mp_tensor *b);

/* Return the k-th input or output of an operator; NULL: the operand is omitted. */
mp_tensor *mp_operator_in(const mp_model *model, const mp_operator *op, int k);
mp_tensor *mp_operator_out(const mp_model *model, const mp_operator *op, int k);

/* Operands of control operators, which exist until mp_model_infer.
 *
 *     If      inputs: condition, then the results of both regions, one per output
 *     Loop    inputs: trip count, condition, carried values, then the results of the region: condition, carried values, scans
 *     Scan    inputs: (lengths, before operator set 9), carried values, scanned values, then the results without a condition
 */

/* Adds an empty region within `outer`. The prefix must be in the model's pool; it is not copied. MP_NOMEM. */
mp_status mp_model_region(mp_model *model, int outer, const char *prefix, int *index, mp_error *err);

/* Returns the number of operands of the operator itself, without the results of its regions. */
int mp_operator_explicit_inputs(const mp_model *model, const mp_operator *op);
/* Returns the input that provides the k-th formal of the operator's region in the first run; -1: none. */
int mp_operator_input_of_formal(const mp_model *model, const mp_operator *op, int k);
/* Returns the output that receives the k-th result of a region, at the end or piece by piece; -1: none. */
int mp_operator_output_of_result(const mp_operator *op, int k);
