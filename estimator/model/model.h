/* model.h - a network as its file has it: operators, tensors and their attributes, with every dimension a number.
 *
 * A model is built by a reader in formats/ (or by hand through the functions below), completed by mp_model_infer (infer.h)
 * and cleaned by mp_model_simplify (simplify.h). All that a model points to is in its pool and lives until mp_model_free.
 * Tensors and operators are named by their index; indices never change, a removed operator is only marked.
 */
#pragma once

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "estimator/base/memory.h"
#include "estimator/model/doubts.h"
#include "memplan/error.h"
#include "memplan/model.h"

enum { MP_VALUE_MAX = 1 << 17 }; /* elements of the largest value that is stored */

/* The elements of a tensor, row-major: integers and booleans in `i`, floats in `f`. */
typedef struct mp_value {
    int64_t n;
    bool is_real;
    union {
        int64_t *i;
        double *f;
    };
} mp_value;

/* Returns n zeroed elements in the model's pool; NULL if memory is short. */
mp_value *mp_value_new(mp_model *model, int64_t n, bool is_real);

struct mp_operator;

typedef enum mp_attribute_kind {
    MP_ATTRIBUTE_INT,
    MP_ATTRIBUTE_FLOAT,
    MP_ATTRIBUTE_TEXT, /* a list of texts becomes one text, with commas between */
    MP_ATTRIBUTE_INTS,
    MP_ATTRIBUTE_FLOATS,
    MP_ATTRIBUTE_TENSOR, /* dtype, rank, dims, and value if small and numeric */
    MP_ATTRIBUTE_OTHER   /* present, but of a kind that no rule reads: graphs, sparse tensors, types */
} mp_attribute_kind;

typedef struct mp_attribute {
    const char *name;
    mp_attribute_kind kind;
    int64_t i;        /* INT */
    double f;         /* FLOAT */
    const char *text; /* TEXT */
    size_t n;         /* INTS, FLOATS */
    int64_t *ints;
    double *floats;
    mp_dtype dtype; /* TENSOR */
    int rank;
    int64_t *dims;
    mp_value *value; /* TENSOR: NULL when too large or absent */
} mp_attribute;

/* Return an attribute that points to its argument, for drafts of operators. */
mp_attribute mp_attribute_int(const char *name, int64_t i);
mp_attribute mp_attribute_float(const char *name, double f);
mp_attribute mp_attribute_ints(const char *name, const int64_t *ints, size_t n);

/* Copies from[0..n); the copy points to nothing of the original. *out is untouched on failure. MP_NOMEM. */
mp_status mp_attributes_copy(mp_model *model, const mp_attribute *from, size_t n, mp_attribute **out, mp_error *err);

/* Return the value of an attribute, or `otherwise` if it is absent or of another kind. */
const mp_attribute *mp_operator_attribute(const struct mp_operator *op, const char *name); /* NULL: absent */
int64_t mp_operator_int(const struct mp_operator *op, const char *name, int64_t otherwise);
double mp_operator_float(const struct mp_operator *op, const char *name, double otherwise);
const char *mp_operator_text(const struct mp_operator *op, const char *name, const char *otherwise);
/* Returns *n elements; NULL, and *n 0, if the attribute is absent. */
const int64_t *mp_operator_ints(const struct mp_operator *op, const char *name, size_t *n);

enum { MP_RANK_MAX = 32 }; /* more dimensions than this are refused */

/* Says where the bytes of a tensor come from. */
typedef enum mp_role {
    MP_ROLE_ACTIVATION, /* an operator computes it */
    MP_ROLE_DATA,       /* the batch: an input of every step */
    MP_ROLE_PARAMETER,  /* trained, unless frozen */
    MP_ROLE_BUFFER,     /* kept from step to step but not trained: batch-norm running statistics, masks */
    MP_ROLE_CONSTANT    /* fixed by the file, or folded from constants */
} mp_role;
const char *mp_role_name(mp_role role);

/* What is known of a square boolean mask whose elements are too many to store, or not in the file. Bytes count as
 * booleans: nonzero is true. */
typedef enum mp_mask {
    MP_MASK_UNKNOWN,
    MP_MASK_PAST,  /* true exactly on and below the diagonal of the last two dimensions: what a causal mask keeps */
    MP_MASK_FUTURE /* true exactly above the diagonal: what a causal mask hides */
} mp_mask;

/* How a backend stores a tensor, decided when it prepares a network. All zero means PLAIN. */
typedef enum mp_layout {
    MP_LAYOUT_PLAIN,        /* row-major, in the order of its dimensions */
    MP_LAYOUT_CHANNELS_LAST /* the second dimension innermost: (N, C, H, W) is stored as N, H, W, C */
} mp_layout;
typedef struct mp_stored {
    mp_layout layout;
    const void *packed;      /* the backend's own description of a weight's layout; NULL: `layout` holds */
    int64_t packed_elements; /* elements that it then takes, padding included */
} mp_stored;

/* A sequence of tensors, which lives in the model's pool and is never changed. */
typedef struct mp_sequence {
    int n;
    int *items; /* tensor indices */
    struct mp_sequence_block {
        int used, size;
    } * block; /* the block that `items` is in, which longer sequences may share; NULL: no items */
} mp_sequence;
typedef struct mp_sequence_block mp_sequence_block;

/* How a tensor of a split model lies: each rank has its part of dimension `dim`, whose elements are dealt in `outer` runs: of
 * each run every rank has as much, one rank behind the other. */
typedef struct mp_tensor_part {
    int dim;
    int64_t outer, ranks;
    const int64_t *dims; /* of the whole tensor */
    mp_value *value;     /* of the whole tensor; NULL: not known */
} mp_tensor_part;

typedef struct mp_tensor {
    const char *name;
    mp_dtype dtype;
    int rank;                /* -1: not known yet */
    int64_t *dims;           /* `rank` sizes >= 0 */
    mp_dtype declared_dtype; /* the type that the file declares; UNDEFINED: none */
    int declared_rank;       /* the rank that the file declares; -1: none */
    int64_t *declared_dims;  /* -1 at a dimension that the file leaves open */
    mp_role role;
    const char *source;      /* the line of the network's program that computes it, "net.py:12: return x"; NULL: not known */
    const char *role_reason; /* the rule that chose the role, for people: "named with --data" */
    int producer;            /* the operator that writes it, -1 for what comes from outside */
    mp_value *value;         /* NULL: not known */
    mp_mask mask;            /* UNKNOWN wherever there is a value */
    bool is_output;          /* a declared output of the model */
    bool is_target;          /* an input that the appended loss compares with */
    bool is_frozen;          /* a parameter that is not trained, because adapters are (adapters.h) */
    bool is_summed;          /* a parameter of whose gradient each rank that splits the model has a part (parallel/split.h) */
    bool is_spread;          /* a parameter of experts, of which other ranks have others (parallel/experts.h) */
    bool starts_at_zero;     /* a parameter whose first values are 0, whatever its readers ask for */
    bool is_formal;          /* stands for a value that a control operator passes to its region, while the region exists */
    mp_sequence *sequence;   /* NULL: an ordinary tensor. Else a list of tensors, known after mp_model_infer */
    const mp_tensor_part *part; /* what of it each rank has that splits the model (parallel/split.h); NULL: the whole */
    mp_stored stored;           /* how the backend stores it */
    int replaced_by;            /* the tensor that took its place when simplification removed it, or -1 */
} mp_tensor;

/* Return the dimensions and the value of the whole tensor, where each rank has a part of it. */
static inline const int64_t *mp_tensor_whole_dims(const mp_tensor *t)
{
    return t->part ? t->part->dims : t->dims;
}
static inline mp_value *mp_tensor_whole_value(const mp_tensor *t)
{
    return t->part ? t->part->value : t->value;
}

/* Which operator with subgraphs it is. */
typedef enum mp_control { MP_CONTROL_NONE, MP_CONTROL_IF, MP_CONTROL_LOOP, MP_CONTROL_SCAN } mp_control;

/* Why the program may have run an operator otherwise than the file says, so that memory may differ. */
typedef enum mp_guess {
    MP_GUESS_NONE,
    MP_GUESS_FORMULA, /* several operators were fused into one, but the program may have run them one by one */
    MP_GUESS_LOOP     /* a loop was unrolled, but the program may have run it as one operator */
} mp_guess;

struct mp_op; /* a row of the registry, ops.h */

typedef struct mp_operator {
    const char *name;       /* unique: the name in the file, or one made from its kind and first output */
    const char *kind;       /* "Conv" */
    const char *domain;     /* "" is ai.onnx */
    int version;            /* of the domain's operator set, as the file imports it */
    const struct mp_op *op; /* its registry row; NULL until mp_model_infer has looked it up */
    int n_in, n_out;
    int *in, *out; /* tensor indices; -1: left out */
    size_t n_attributes;
    mp_attribute *attributes;
    int number;         /* 1 + its index before the model was split or adapted to a backend; 0: not noted */
    const char *call;   /* the call in the program, as the exporter noted it; NULL: not noted */
    bool removed;       /* by folding or simplification */
    mp_guess guess;     /* why the program may have run it otherwise than it stands here */
    int region;         /* the region in which it stands; 0: the graph itself */
    mp_control control; /* its kind of control operator, while its regions[] exist */
    int regions[2];     /* its subgraphs; 0: none */
} mp_operator;

/* A subgraph of a control operator (If, Loop, Scan). Its operators stand in the same list as all others, and its results are
 * further operands of the control operator, so that sorting puts them before it. After mp_model_infer there are none. */
typedef struct mp_region {
    int outer;          /* the region of the control operator */
    const char *prefix; /* prefix of the names of its tensors and operators: "/If#then" */
    int n_formals, n_results;
    int *formals, *results; /* tensor indices; results may be tensors from outside the region */
} mp_region;

struct mp_model {
    const char *name;            /* the file's base name without its ending */
    const char *path;            /* as the user gave it, for messages; "" for none */
    const char *external_folder; /* a folder for external weights, beside the folder of the file; NULL: none */
    mp_pool *pool;
    size_t n_tensors, tensors_capacity;
    mp_tensor *tensors;
    size_t n_operators, operators_capacity;
    mp_operator *operators; /* in the order of the file; after mp_model_sort, in an order in which they can run */
    size_t n_regions, regions_capacity;
    mp_region *regions;    /* the first stands for the graph itself; none in a model without control operators */
    int *inputs, *outputs; /* tensor indices: declared inputs that are no initializers; declared outputs */
    size_t n_inputs, n_outputs, inputs_capacity, outputs_capacity;
    int folded_norms;             /* batch normalizations of the network that the exporter has folded into other operators */
    mp_doubt doubts[MP_N_DOUBTS]; /* weights about which the file is silent */
    struct mp_names *names;       /* tensor name -> index */
    struct mp_names *tensor_numbers, *operator_numbers; /* taken names -> the next number to append */
};

/* Makes an empty model. On MP_OK *out is released with mp_model_free. MP_NOMEM. */
mp_status mp_model_new(const char *name, const char *path, mp_model **out, mp_error *err);

/* Returns the tensor of this name, -1 if there is none. O(1). */
int mp_model_find(const mp_model *model, const char *name);

/* Finds the tensor of this name, or adds it: an activation of unknown type and rank without producer. MP_NOMEM. */
mp_status mp_model_tensor(mp_model *model, const char *name, int *index, mp_error *err);
/* Adds a tensor named `stem`, or stem with a number behind it if that name is taken. MP_NOMEM. */
mp_status mp_model_fresh_tensor(mp_model *model, const char *stem, int *index, mp_error *err);

/* An operator to be added; everything is copied. */
typedef struct mp_operator_draft {
    const char *name; /* NULL or "": a name is made up */
    const char *kind, *domain;
    int version;
    const int *in, *out; /* -1: left out */
    int n_in, n_out;
    const mp_attribute *attributes; /* copied deeply */
    size_t n_attributes;
} mp_operator_draft;

/* Return a draft without outputs whose name will be made up: of this kind, or of the kind and with the attributes of `op`. */
mp_operator_draft mp_draft(const char *kind, const char *domain, int version, const int *in, int n_in,
                           const mp_attribute *attributes, size_t n_attributes);
mp_operator_draft mp_draft_like(const mp_operator *op, const int *in, int n_in);

/* Appends an operator and becomes the producer of its outputs. MP_PARSE: an output has a producer already, or the operator
 * reads its own output. MP_NOMEM. Pointers into model->operators are invalid afterwards. */
mp_status mp_model_operator(mp_model *model, const mp_operator_draft *draft, int *index, mp_error *err);

/* Marks a tensor as declared input or output. MP_NOMEM. */
mp_status mp_model_declare_input(mp_model *model, int tensor, mp_error *err);
mp_status mp_model_declare_output(mp_model *model, int tensor, mp_error *err);

/* Sets type and shape; dims are copied. MP_PARSE: rank over MP_RANK_MAX, a negative dimension, or more bytes than an int64_t
 * counts. MP_NOMEM. */
mp_status mp_tensor_set(mp_model *model, int tensor, mp_dtype dtype, int rank, const int64_t *dims, mp_error *err);

/* Adds a constant, named as a fresh tensor, of a type and shape; its elements in *value are zero until they are set. MP_NOMEM.
 */
mp_status mp_model_constant(mp_model *model, const char *stem, mp_dtype dtype, int rank, const int64_t *dims, int *tensor,
                            mp_value **value, mp_error *err);

/* Return the elements and bytes of a tensor of known shape. 4-bit types are rounded up to whole bytes; strings count 0. */
int64_t mp_tensor_elements(const mp_tensor *tensor);
int64_t mp_stored_elements(const mp_tensor *tensor); /* elements it takes in memory: more where a backend's layout pads it */
int64_t mp_tensor_bytes(const mp_tensor *tensor);

/* True if the shapes are known and both tensors are equal in type and dimensions. */
bool mp_same_shape(const mp_tensor *a, const mp_tensor *b);

/* Return the k-th input or output of an operator; NULL if it is left out. */
mp_tensor *mp_operator_in(const mp_model *model, const mp_operator *op, int k);
mp_tensor *mp_operator_out(const mp_model *model, const mp_operator *op, int k);

/* Operands of control operators, which a model may have from its reader to mp_model_infer.
 *
 *     If      inputs: condition                                then the results of both regions, one for each output
 *     Loop    inputs: trip count, condition, what is carried   then the results of the region: condition, what is carried,
 * scans Scan    inputs: (lengths, before operator set 9), what is carried, what is scanned; then the same without a condition
 */

/* Adds an empty region within `outer`. The prefix must lie in the pool: it is not copied. MP_NOMEM. */
mp_status mp_model_region(mp_model *model, int outer, const char *prefix, int *index, mp_error *err);

/* Returns how many operands the node itself has; further ones are results of its regions. */
int mp_operator_explicit_inputs(const mp_model *model, const mp_operator *op);
/* Returns the input that the k-th formal of the operator's region stands for in the first run, -1 if there is none. */
int mp_operator_input_of_formal(const mp_model *model, const mp_operator *op, int k);
/* Returns the output that gets the k-th result of a region, at the end or piece by piece; -1 if there is none. */
int mp_operator_output_of_result(const mp_operator *op, int k);
