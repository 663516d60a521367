/* onnx.h - shared declarations of this folder: the steps by which onnx.c reads a file, and name look-up for nodes. Private to
 * formats/onnx. Values of tensors are in onnx_weights.h. */
#pragma once

#include "estimator/base/names.h"
#include "estimator/model/model.h"
#include "formats/onnx/onnx_uses.h"
#include "formats/onnx/scan/onnx_scan.h"
#include "memplan/onnx.h"
#include "onnx.pb-c.h"

typedef struct mp_onnx_function {
    const Onnx__FunctionProto *proto;
    size_t n_defaults;
    Onnx__AttributeProto **defaults; /* n_defaults attributes, with the values that apply if a call omits them */
} mp_onnx_function;

typedef struct mp_onnx_functions {
    size_t n;
    mp_onnx_function *list;
    mp_names *index; /* map from a function's key to its position in `list` */
    mp_pool *pool;
    mp_onnx_budget *budget;
} mp_onnx_functions;

/* Collects the file's functions. MP_PARSE: a function without a name, or two with the same name. MP_NOMEM. On MP_OK release
 * with mp_onnx_functions_free, before the file. */
mp_status mp_onnx_functions_read(const Onnx__ModelProto *file, mp_onnx_budget *budget, mp_onnx_functions *out, mp_error *err);
void mp_onnx_functions_free(mp_onnx_functions *functions); /* releases the members; a zeroed struct is allowed */

/* Finds the function that a node calls; *found is NULL if the file has none with that name. MP_NOMEM. */
mp_status mp_onnx_function_of(const mp_onnx_functions *functions, const Onnx__NodeProto *node, const mp_onnx_function **found,
                              mp_error *err);

/* Returns a node's domain; "" for ONNX's own operators, whose domain some files call "ai.onnx". Never NULL. */
const char *mp_onnx_domain(const char *domain);
/* Checks that each operator set is imported once, with a plausible version. MP_PARSE. */
mp_status mp_onnx_check_imports(const Onnx__ModelProto *file, mp_error *err);
/* Returns the imported version of a domain; 0: not imported. */
int mp_onnx_version(Onnx__OperatorSetIdProto *const *imports, size_t n, const char *domain);

/* The scope for name look-up of a node: the graph, a function call, or a subgraph. A subgraph sees the names of its
 * surroundings, and its own definitions hide them. A function sees only its own names. */
enum { MP_ONNX_CALL_DEPTH_MAX = 64 }; /* maximum nesting depth of function calls and subgraphs */

typedef struct mp_onnx_binding {
    const char *name;
    const Onnx__AttributeProto *attribute;
} mp_onnx_binding;

typedef struct mp_onnx_scope {
    const struct mp_onnx_scope
        *outer; /* scope that contains the call or the control operator; NULL: the scope is the main graph */
    const struct mp_onnx_scope *visible; /* for a subgraph: the scope that resolves names the subgraph does not define */
    int depth, region;
    const mp_onnx_function *function; /* the called function, also inside its subgraphs; NULL: none */
    const char *prefix;               /* prefix of new names; NULL: names of the graph are unchanged */
    mp_names *tensors; /* map from a function's inputs to tensors of the model, or MP_ONNX_LEFT_OUT for an omitted input; NULL
                          outside functions */
    const mp_onnx_binding *attributes; /* attributes that the call passes to the function */
    size_t n_attributes;
} mp_onnx_scope;
static inline void mp_onnx_scope_free(mp_onnx_scope *scope)
{
    mp_names_free(scope->tensors);
}

enum { MP_ONNX_LEFT_OUT = -2 };

/* The state of reading the nodes of one file. */
typedef struct mp_onnx_builder {
    mp_model *model;
    /* Adds nodes as operators of the scope's region. */
    mp_status (*add_nodes)(struct mp_onnx_builder *b, const mp_onnx_scope *s, Onnx__NodeProto *const *nodes, size_t n);
    const Onnx__ModelProto *file;
    mp_onnx_functions functions;
    int64_t work,
        n_calls; /* work: elements and names that functions and subgraphs have added so far; n_calls: number of calls so far */
    mp_error *err;
} mp_onnx_builder;

/* Returns s, or "" if s is NULL. */
const char *mp_onnx_text(const char *s);
/* Counts work that a small file can multiply (functions, subgraphs). MP_PARSE: too much. */
mp_status mp_onnx_charge(mp_onnx_builder *b, int64_t work);

/* Finds the model's tensor for a name in this scope, or creates one for a new name. *index is -1 if the call omits it.
 * MP_PARSE, MP_NOMEM. */
mp_status mp_onnx_find_tensor(mp_onnx_builder *b, const mp_onnx_scope *s, const char *name, int *index);
/* Finds the tensors of a list of names. Release *out with mp_free. */
mp_status mp_onnx_find_tensors(mp_onnx_builder *b, const mp_onnx_scope *s, char *const *names, size_t n, int **out);
/* Creates a tensor PREFIX/NAME that this scope knows as `name`. */
mp_status mp_onnx_define_tensor(mp_onnx_builder *b, const mp_onnx_scope *s, const char *name, int *index);

/* Fails if tensor `index`, defined as `name` in a subgraph, was renamed because the name was already in use. Its values stay in
 * the file and are looked up by name, which would then fail. MP_UNSUPPORTED, MP_NOMEM. */
mp_status mp_onnx_check_values(mp_onnx_builder *b, const mp_onnx_scope *s, const char *name, int index);

/* Returns the attribute with this name; NULL: none. */
const Onnx__AttributeProto *mp_onnx_find_binding(const mp_onnx_binding *list, size_t n, const char *name);

/* True for ONNX's own control operators that a model can represent (If, Loop, Scan). */
bool mp_onnx_is_control(const char *domain, const char *kind);

/* Adds a node with subgraphs as a control operator, and its subgraphs as regions of the model (estimator/model/model.h).
 * MP_PARSE: a subgraph that is missing, nested too deeply, or has two tensors with one name. MP_NOMEM. */
mp_status mp_onnx_add_control(mp_onnx_builder *b, const mp_onnx_scope *s, const Onnx__NodeProto *node, int version,
                              const mp_onnx_binding *bindings, size_t n_bindings);

/* Adds every node of the graph to the model, which already has the graph's inputs and initializers. A node that calls a
 * function of the file is replaced by the function's nodes, unless the registry has the operator itself. `budget` provides
 * memory for fields that protobuf-c left packed. MP_PARSE, MP_UNSUPPORTED: the message names the node. MP_NOMEM. */
mp_status mp_onnx_nodes(mp_model *model, const Onnx__ModelProto *file, mp_onnx_budget *budget, mp_error *err);

/* Adds the graph's inputs that are not initializers: element type, and shape if every dimension is fixed (rank -1 otherwise).
 * Their role is initially MP_ROLE_DATA. MP_PARSE. MP_UNSUPPORTED: not a tensor. MP_NOMEM. */
mp_status mp_onnx_inputs(mp_model *model, const Onnx__GraphProto *graph, const mp_onnx_options *options, mp_error *err);

/* Sets the shape of every input, which requires the roles, and records the declared shapes of other tensors. MP_INVALID: an
 * option names an unknown dimension, or a batch that the file does not permit. MP_PARSE: a dimension remains unknown.
 * MP_NOMEM. */
mp_status mp_onnx_bind(mp_model *model, const Onnx__GraphProto *graph, const mp_onnx_options *options, mp_error *err);

/* True if a symbolic dimension of this name is a batch: "N", "batch_size". */
bool mp_onnx_is_batch_name(const char *name);

/* Receives one entry of the metadata; the texts are valid during the call. A status other than MP_OK ends the reading. */
typedef mp_status (*mp_onnx_entry_taker)(void *data, const char *key, const char *value);

/* Passes every metadata entry to `take` that the scan has stored in a message under the field number `id`. MP_PARSE,
 * MP_NOMEM. */
mp_status mp_onnx_metadata_each(const ProtobufCMessage *message, uint32_t id, mp_onnx_budget *budget, mp_onnx_entry_taker take,
                                void *data, mp_error *err);

/* Adds module prefixes to the names of operators and their outputs: "linear_3" becomes "/blocks.0/blocks.0.fc/linear_3". The
 * file's name still finds the tensor. Also records the call in the program for each operator, and the source line for each
 * tensor. Names that already have modules, constants and outputs of the model are unchanged. Call after the outputs are
 * declared. MP_PARSE: damaged metadata. MP_NOMEM. O(metadata). */
mp_status mp_onnx_scopes_read(mp_model *model, const Onnx__GraphProto *graph, mp_onnx_budget *budget, mp_error *err);

/* Makes initializers of parameters and statistics that PyTorch's older exporter wrote as Identity of another tensor with equal
 * values. Call before roles are chosen. MP_NOMEM. O(operands). */
mp_status mp_onnx_separate(mp_model *model, mp_error *err);
/* Creates a separate buffer for each batch normalization that reads a parameter as a running statistic. MP_NOMEM.
 * O(operands). */
mp_status mp_onnx_separate_statistics(mp_model *model, mp_error *err);

typedef enum mp_onnx_origin {
    MP_ONNX_ORIGIN_UNSAID,
    MP_ONNX_ORIGIN_PARAMETER,
    MP_ONNX_ORIGIN_OF_PARAMETERS, /* computed by the exporter from parameters: a transpose, or rows of an embedding */
    MP_ONNX_ORIGIN_OF_STATE,      /* computed by the exporter from named tensors, whose kind is unknown without a signature */
    MP_ONNX_ORIGIN_BUFFER,
    MP_ONNX_ORIGIN_CONSTANT,
    MP_ONNX_ORIGIN_OF_CONSTANTS /* computed by the exporter, but not from parameters: a mask, zeros, sines */
} mp_onnx_origin;

typedef struct mp_onnx_origins {
    mp_onnx_origin *of; /* origin of each tensor of the model */
    int folded_norms;   /* number of batch normalizations of the exported program that are no longer operators of the graph */
    bool is_newer;      /* true if PyTorch's newer exporter has written the file */
    bool is_unsigned;   /* true if the newer exporter has written the file, and a later tool has removed the signature */
} mp_onnx_origins;

/* Reads the metadata that PyTorch's newer exporter writes: the program's inputs by kind
 * (`pkg.torch.export.ExportedProgram.graph_signature`), the kind of an initializer, and the names from which constant folding
 * created it (`pkg.onnxscript.optimizer.folded_from`). Without the signature a name does not distinguish parameters from
 * buffers; tensors computed from a named tensor are then OF_STATE. In a file without metadata all origins are UNSAID, and
 * folded normalizations are recognised by the names that exporters give to folded weights. Parameters that the file lacks or
 * contains twice become doubts of the model. MP_PARSE: malformed metadata. MP_NOMEM. On MP_OK release with
 * mp_onnx_origins_free. O(metadata). */
mp_status mp_onnx_origins_read(mp_model *model, const Onnx__GraphProto *graph, mp_onnx_budget *budget, mp_onnx_origins *out,
                               mp_error *err);
void mp_onnx_origins_free(mp_onnx_origins *origins); /* releases the members; a zeroed struct is allowed */

/* Sets role and role_reason of every declared input and initializer (whose role is MP_ROLE_CONSTANT before). All operators must
 * exist, the type of every input must be known, and its shape if it is fixed (rank -1: a dimension is open). `origins`
 * describes the initializers. With options->data exactly the named inputs are data. Floating-point state that matches
 * options->train is trained, regardless of the rules. MP_INVALID: a name that is not an input, or a pattern without a match.
 * MP_NOMEM. O(operands + tensors times patterns). */
mp_status mp_onnx_roles(mp_model *model, const mp_onnx_origins *origins, const mp_onnx_options *options, mp_error *err);

/* Sets a role. A tensor that training changes loses its value, so that it is not folded. */
void mp_onnx_set_role(mp_tensor *t, mp_role role, const char *reason);
/* Chooses the role of an initializer. `state`: the file's initializers are named like a state dictionary. */
void mp_onnx_choose_initializer(const mp_model *model, mp_tensor *t, const mp_onnx_use *u, mp_onnx_origin origin, bool state);
/* True if the tensor's elements are in the file and are all equal. */
bool mp_onnx_is_uniform(const mp_tensor *t);
/* True if operators read the tensor only as a weight. */
bool mp_onnx_is_weight(const mp_tensor *t, const mp_onnx_use *u);

/* Converts weights that operators write as constants to initializers, if they have more elements than the weights among
 * initializers and inputs. Initializers must have roles; inputs must not have roles yet. MP_NOMEM. O(operands). */
mp_status mp_onnx_roles_adopt(mp_model *model, const mp_onnx_use *uses, mp_error *err);
/* Converts weights that operators write as constants to initializers if their own name, or the name of a tensor rearranged from
 * them, matches the pattern. A pattern with wildcards matches only weights. Sets *any if there is a match. MP_NOMEM. */
mp_status mp_onnx_roles_adopt_named(mp_model *model, const mp_onnx_use *uses, const char *pattern, bool *any, mp_error *err);
/* Counts the matrices that PyTorch's older exporter has stored transposed, although the file also contains the original matrix,
 * for example as an embedding. Call before roles are chosen, because values are required. MP_NOMEM. O(such matrices times
 * tensors). */
mp_status mp_onnx_roles_doubt_tied(mp_model *model, const mp_onnx_use *uses, mp_error *err);
/* Counts tensors that are read as weights but not trained, as doubts of the model. MP_NOMEM. */
mp_status mp_onnx_roles_doubt_constants(mp_model *model, const mp_onnx_use *uses, mp_error *err);

/* Sets `mask` of square boolean (or byte) tensors from outside without a value in the model, from the file's values. A buffer
 * without values is assumed to be a causal mask. If a Where writes a negative constant where the buffer is true, true means
 * hidden; otherwise true means kept. Roles must be set and the model inferred. MP_IO: the file cannot be read again. MP_NOMEM.
 * O(tensors), plus the elements of such masks in the file. */
mp_status mp_onnx_masks(mp_model *model, const char *path, mp_error *err);

/* True if the tensor is a table of sines and cosines of positions (Vaswani et al. 2017, 3.5), which is computed, not learned.
 * Evidence: position 0 is exactly half zeros and half ones, and all elements are within -1 and 1. False if the elements are
 * unknown. O(elements). */
bool mp_onnx_is_sines(const mp_tensor *tensor);

/* True if a name ends like an entry of a state dictionary: "enc.weight", "bn.running_var". */
bool mp_onnx_names_entry(const char *name);
/* True if a name has the form of an attribute in a nested module, "m.logit_scale": it contains a dot, and no component that
 * exporters add. */
bool mp_onnx_names_state(const char *name);
/* True if a name ends like a constant look-up table: "causal_mask", "rotary.cos_cached", "pixel_mean". */
bool mp_onnx_names_table(const char *name);
/* True if a name ends like a running statistic or a counter of batch normalization. */
bool mp_onnx_names_statistic(const char *name);
/* True if a name is a generated name of PyTorch's newer exporter for a stored result: "val_162", "zeros_like",
 * "unsqueeze_3". */
bool mp_onnx_names_result(const char *name);
/* True if a name is a generated name of PyTorch's older exporter for a result of constant folding: "onnx::Add_12". With
 * `numbers` also "12", as releases before 1.11 write it. */
bool mp_onnx_names_folded(const char *name, bool numbers);
/* True if all floating-point initializers are named like state (without a dot in the outermost module), and at least one is an
 * entry of an inner module. PyTorch's older exporter writes such files, with constants as operators. Call before roles are
 * chosen. O(tensors). */
bool mp_onnx_is_state_dictionary(const mp_model *model);
/* True if a name is weight, bias, running_mean or running_var, and the model has both statistics of the same module. */
bool mp_onnx_names_frozen_norm(const mp_model *model, const char *name);
