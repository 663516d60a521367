/* onnx.h - what the files of this folder share: the steps in which onnx.c reads a file, and the names that nodes look up.
 * Private to formats/onnx; values of tensors are in onnx_weights.h.
 */
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
    Onnx__AttributeProto **defaults; /* values of the attributes that a call leaves out */
} mp_onnx_function;

typedef struct mp_onnx_functions {
    size_t n;
    mp_onnx_function *list;
    mp_names *index; /* key -> position in the list */
    mp_pool *pool;
    mp_onnx_budget *budget;
} mp_onnx_functions;

/* Collects the file's functions. MP_PARSE: one without a name, or two of the same name; MP_NOMEM. On MP_OK released with
 * mp_onnx_functions_free, before the file. */
mp_status mp_onnx_functions_read(const Onnx__ModelProto *file, mp_onnx_budget *budget, mp_onnx_functions *out, mp_error *err);
void mp_onnx_functions_free(mp_onnx_functions *functions); /* zeroed is fine */

/* Finds the function that the node calls; *found is NULL if the file has none of that name. MP_NOMEM. */
mp_status mp_onnx_function_of(const mp_onnx_functions *functions, const Onnx__NodeProto *node, const mp_onnx_function **found,
                              mp_error *err);

/* Returns the domain, "" for the operators of ONNX itself, which some files call "ai.onnx". Never NULL. */
const char *mp_onnx_domain(const char *domain);
/* Checks that each operator set is imported once, in a version of sensible size. MP_PARSE. */
mp_status mp_onnx_check_imports(const Onnx__ModelProto *file, mp_error *err);
/* Returns the version in which a domain is imported, 0 if it is not. */
int mp_onnx_version(Onnx__OperatorSetIdProto *const *imports, size_t n, const char *domain);

/* Where the names of a node are looked up: the graph, a call of a function, or a subgraph. A subgraph sees the names around it,
 * and what it defines itself hides them. A function sees its own only. */
enum { MP_ONNX_CALL_DEPTH_MAX = 64 }; /* calls and subgraphs within each other */

typedef struct mp_onnx_binding {
    const char *name;
    const Onnx__AttributeProto *attribute;
} mp_onnx_binding;

typedef struct mp_onnx_scope {
    const struct mp_onnx_scope *outer; /* the scope in which the call or the control operator stands; NULL: this is the graph */
    const struct mp_onnx_scope *visible; /* of a subgraph: the scope in which names are looked up that it does not define */
    int depth, region;
    const mp_onnx_function *function; /* the function being called, also around a subgraph; NULL: none */
    const char *prefix;               /* put before new names; NULL: names of the graph stay as they are */
    mp_names *tensors; /* of a function's inputs: the model's tensor, or MP_ONNX_LEFT_OUT; NULL outside functions */
    const mp_onnx_binding *attributes; /* arguments of the call */
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
    int64_t work, n_calls; /* of functions and subgraphs so far */
    mp_error *err;
} mp_onnx_builder;

/* Returns s, or "" for NULL. */
const char *mp_onnx_text(const char *s);
/* Counts work that a small file can multiply (functions, subgraphs). MP_PARSE if it is too much. */
mp_status mp_onnx_charge(mp_onnx_builder *b, int64_t work);

/* Finds the model's tensor for a name in this scope, and makes one for a name not seen yet. *index is -1 if the call left it
 * out. MP_PARSE, MP_NOMEM. */
mp_status mp_onnx_find_tensor(mp_onnx_builder *b, const mp_onnx_scope *s, const char *name, int *index);
/* Finds the tensors of a list of names; *out is released with mp_free. */
mp_status mp_onnx_find_tensors(mp_onnx_builder *b, const mp_onnx_scope *s, char *const *names, size_t n, int **out);
/* Makes a new tensor PREFIX/NAME that this scope knows as `name`. */
mp_status mp_onnx_define_tensor(mp_onnx_builder *b, const mp_onnx_scope *s, const char *name, int *index);

/* Fails if tensor `index`, defined as `name` in a subgraph, was renamed because its name was already used: its values stay in
 * the file, where they are looked up by name. MP_UNSUPPORTED, MP_NOMEM. */
mp_status mp_onnx_check_values(mp_onnx_builder *b, const mp_onnx_scope *s, const char *name, int index);

/* Returns the attribute of this name, NULL if there is none. */
const Onnx__AttributeProto *mp_onnx_find_binding(const mp_onnx_binding *list, size_t n, const char *name);

/* True if it is one of ONNX's own operators with subgraphs that a model can represent (If, Loop, Scan). */
bool mp_onnx_is_control(const char *domain, const char *kind);

/* Adds a node with subgraphs as a control operator, and its subgraphs as regions of the model (estimator/model/model.h).
 * MP_PARSE: a subgraph that is missing, too deep, or has two tensors of one name; MP_NOMEM. */
mp_status mp_onnx_add_control(mp_onnx_builder *b, const mp_onnx_scope *s, const Onnx__NodeProto *node, int version,
                              const mp_onnx_binding *bindings, size_t n_bindings);

/* Adds every node of the graph to the model, which holds the graph's inputs and initializers already. A node that calls a
 * function of the file is replaced by the function's nodes, unless the registry knows the operator as a whole. `allocator`
 * serves for what protobuf-c left packed. MP_PARSE, MP_UNSUPPORTED: a sentence that names the node; MP_NOMEM. */
mp_status mp_onnx_nodes(mp_model *model, const Onnx__ModelProto *file, mp_onnx_budget *budget, mp_error *err);

/* Adds the graph's inputs that are no initializers: element type, and shape if every dimension is fixed (rank -1
 * otherwise). Their role is MP_ROLE_DATA for now. MP_PARSE, MP_UNSUPPORTED (no tensor), MP_NOMEM. */
mp_status mp_onnx_inputs(mp_model *model, const Onnx__GraphProto *graph, const mp_onnx_options *options, mp_error *err);

/* Gives every input its shape, now that the roles are known, and records the shapes that the file declares for other tensors.
 * MP_INVALID: an option that names no dimension, or a batch that the file does not allow; MP_PARSE: a dimension that stays
 * open; MP_NOMEM. */
mp_status mp_onnx_bind(mp_model *model, const Onnx__GraphProto *graph, const mp_onnx_options *options, mp_error *err);

/* True if a symbolic dimension of this name is a batch: "N", "batch_size". */
bool mp_onnx_is_batch_name(const char *name);

/* Takes one entry of the metadata; the texts are valid during the call. A status other than MP_OK ends the reading. */
typedef mp_status (*mp_onnx_entry_taker)(void *data, const char *key, const char *value);

/* Hands over every entry of the metadata that the scan has left in a message under the number `id`. MP_PARSE, MP_NOMEM. */
mp_status mp_onnx_metadata_each(const ProtobufCMessage *message, uint32_t id, mp_onnx_budget *budget, mp_onnx_entry_taker take,
                                void *data, mp_error *err);

/* Puts the modules in front of the names of operators and of what they compute, "linear_3" becomes
 * "/blocks.0/blocks.0.fc/linear_3" (the file's name still finds the tensor), and records for each operator the call in the
 * program, and for each tensor the line that computes it. Names with modules, constants and outputs of the model stay as they
 * are. Must be called after the outputs are declared. MP_PARSE: damaged metadata; MP_NOMEM. O(metadata). */
mp_status mp_onnx_scopes_read(mp_model *model, const Onnx__GraphProto *graph, mp_onnx_budget *budget, mp_error *err);

/* Makes initializers of the parameters and statistics that PyTorch's older exporter wrote as Identity of another tensor of
 * equal values. Roles are not chosen yet. MP_NOMEM. O(operands). */
mp_status mp_onnx_separate(mp_model *model, mp_error *err);
/* Gives each batch normalization that reads a parameter as a running statistic a buffer of its own. MP_NOMEM. O(operands). */
mp_status mp_onnx_separate_statistics(mp_model *model, mp_error *err);

typedef enum mp_onnx_origin {
    MP_ONNX_ORIGIN_UNSAID,
    MP_ONNX_ORIGIN_PARAMETER,
    MP_ONNX_ORIGIN_OF_PARAMETERS, /* the exporter computed it from parameters: a transpose, the rows of an embedding */
    MP_ONNX_ORIGIN_OF_STATE,      /* the exporter computed it from named tensors, and no signature says of which kind */
    MP_ONNX_ORIGIN_BUFFER,
    MP_ONNX_ORIGIN_CONSTANT,
    MP_ONNX_ORIGIN_OF_CONSTANTS /* the exporter computed it, but not from parameters: a mask, zeros, sines */
} mp_onnx_origin;

typedef struct mp_onnx_origins {
    mp_onnx_origin *of; /* per tensor of the model */
    int folded_norms;   /* batch normalizations of the exported program that are no longer operators of the graph */
    bool is_newer;      /* PyTorch's newer exporter wrote the file */
    bool is_unsigned;   /* the newer exporter wrote the file, and a later tool took the signature out */
} mp_onnx_origins;

/* Reads what PyTorch's newer exporter leaves in a graph's metadata: the inputs of the exported programme by kind
 * (`pkg.torch.export.ExportedProgram.graph_signature`), the kind of an initializer, and the names from which constant
 * folding made it (`pkg.onnxscript.optimizer.folded_from`). Without the signature a name does not tell a parameter from a
 * buffer: what is computed from a named tensor is then OF_STATE. In a file without metadata all are UNSAID, and folded
 * normalizations are recognised by the names that exporters give to folded weights. Parameters that the file lacks or has
 * twice become doubts of the model. MP_PARSE: malformed metadata; MP_NOMEM. On MP_OK released with mp_onnx_origins_free.
 * O(metadata). */
mp_status mp_onnx_origins_read(mp_model *model, const Onnx__GraphProto *graph, mp_onnx_budget *budget, mp_onnx_origins *out,
                               mp_error *err);
void mp_onnx_origins_free(mp_onnx_origins *origins); /* zeroed is fine */

/* Sets role and role_reason of every declared input and initializer (whose role is MP_ROLE_CONSTANT so far). The
 * operators are all there, the type of every input is known, and its shape if it is fixed (rank -1: a dimension is
 * open). `origins` is what the file says of its initializers; with options->data exactly the named inputs are data;
 * floating-point state that matches options->train is trained whatever the rules say. MP_INVALID: a name that is no
 * input, a pattern that nothing has; MP_NOMEM. O(operands + tensors times patterns). */
mp_status mp_onnx_roles(mp_model *model, const mp_onnx_origins *origins, const mp_onnx_options *options, mp_error *err);

/* Sets a role. A tensor that training changes loses its value, so that it is not folded. */
void mp_onnx_set_role(mp_tensor *t, mp_role role, const char *reason);
/* Chooses the role of an initializer. `state`: the file's initializers have the names of a state dictionary. */
void mp_onnx_choose_initializer(const mp_model *model, mp_tensor *t, const mp_onnx_use *u, mp_onnx_origin origin, bool state);
/* True if the elements are in the file and all equal. */
bool mp_onnx_is_uniform(const mp_tensor *t);
/* True if the tensor is read only as weights are. */
bool mp_onnx_is_weight(const mp_tensor *t, const mp_onnx_use *u);

/* Turns weights that operators write as constants into initializers, if they have more elements than the weights among the
 * initializers and inputs. Initializers have their roles; inputs have none yet. MP_NOMEM. O(operands). */
mp_status mp_onnx_roles_adopt(mp_model *model, const mp_onnx_use *uses, mp_error *err);
/* Turns such constants into initializers whose own name, or that of a tensor rearranged from them, matches the pattern. A
 * pattern with wildcards takes only what is read as a weight. Sets *any if there is one. MP_NOMEM. */
mp_status mp_onnx_roles_adopt_named(mp_model *model, const mp_onnx_use *uses, const char *pattern, bool *any, mp_error *err);
/* Counts the matrices that PyTorch's older exporter transposed and whose original is also in the file, as the rows of an
 * embedding. Values must still be there: before roles are chosen. MP_NOMEM. O(such matrices times tensors). */
mp_status mp_onnx_roles_doubt_tied(mp_model *model, const mp_onnx_use *uses, mp_error *err);
/* Counts what is read as a weight and not trained, as doubts of the model. MP_NOMEM. */
mp_status mp_onnx_roles_doubt_constants(mp_model *model, const mp_onnx_use *uses, mp_error *err);

/* Sets `mask` of square boolean (or byte) tensors from outside that have no value in the model, from the file's values.
 * A buffer without values is taken for a causal mask: true where scores are hidden if a Where puts a negative constant
 * there, else true where they are kept. Roles must be set and the model inferred. MP_IO: the file cannot be read again;
 * MP_NOMEM. O(tensors), and the elements of such masks in the file. */
mp_status mp_onnx_masks(mp_model *model, const char *path, mp_error *err);

/* True if the tensor is a table of sines and cosines of positions (Vaswani et al. 2017, 3.5), which is computed and not
 * learned: position 0 is half zeros and half ones, exactly, all others are within -1 and 1. False where the elements are not
 * known. O(elements). */
bool mp_onnx_is_sines(const mp_tensor *tensor);

/* True if a name ends like an entry of a state dictionary: "enc.weight", "bn.running_var". */
bool mp_onnx_names_entry(const char *name);
/* True if a name is one of a module within a module, "m.logit_scale": it has a dot, and no part that exporters add. */
bool mp_onnx_names_state(const char *name);
/* True if a name ends like a table that is only looked up: "causal_mask", "rotary.cos_cached", "pixel_mean". */
bool mp_onnx_names_table(const char *name);
/* True if a name ends like a running statistic or a counter of batch normalization. */
bool mp_onnx_names_statistic(const char *name);
/* True if a name is one that PyTorch's newer exporter gives to a result that it computed and stored: "val_162",
 * "zeros_like", "unsqueeze_3". */
bool mp_onnx_names_result(const char *name);
/* True if all floating-point initializers have names of state (without a dot if they are the outermost module's), and
 * one is an entry of an inner module: PyTorch's older exporter writes such files, with constants as operators. Roles
 * are not chosen yet. O(tensors). */
bool mp_onnx_is_state_dictionary(const mp_model *model);
/* True if a name is weight, bias, running_mean or running_var, and the model has both statistics of the same module. */
bool mp_onnx_names_frozen_norm(const mp_model *model, const char *name);
