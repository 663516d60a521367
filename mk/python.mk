# The PyTorch package: its tests and benches in an environment of its own, and the wheel.
test-python: $B/package/libmemplan.so | $B/venv/bin/python3 ## the tests of the PyTorch package, with a PyTorch installed into build/venv (TORCH=torch==2.4.1)
	@$B/venv/bin/pip install -q $(or $(TORCH),torch) numpy pytest transformers accelerate peft bitsandbytes lightning nbclient ipykernel
	@tests/python.sh $B/venv/bin/python3 $B/package/libmemplan.so

bench-python: $B/libmemplan.so | $B/venv/bin/python3 ## the tables of docs/reference/python.md, with PyTorch and networks of libraries in build/venv (BENCH=rivals)
	@$B/venv/bin/pip install -q $(or $(TORCH),torch) numpy torchvision transformers timm diffusers accelerate peft
	@for b in $(or $(BENCH),small zoo strangers guards rivals start train_step); do MEMPLAN_CACHE=off MEMPLAN_LIBRARY=$(abspath $B)/libmemplan.so \
	  PYTHONPATH=python/src:python/tests OMP_NUM_THREADS=1 $B/venv/bin/python3 -B python/bench/bench_$$b.py $(NETWORKS) || exit 1; done

wheel: $B/package/libmemplan.so $B/package/memplan | $B/venv/bin/python3 ## package and program as a wheel that needs nothing of the system but Python: python/dist/memplan-*.whl
	@rm -f python/dist/*.whl
	@$B/venv/bin/pip wheel -q --no-deps -w python/dist ./python
	@$B/venv/bin/pip install -q auditwheel
	@tests/wheel.sh $B/venv/bin/python3 python/dist/*.whl

$B/venv/bin/python3:
	@python3 -m venv $B/venv || { rm -rf $B/venv; exit 1; }

# For the wheel: a library with only the functions that the Python package calls, without executor and ONNX; and the program. Both
# are linked with the called functions of igraph only, without the libraries that the rest of igraph needs.
PACKAGE_LIBS = $(patsubst -ligraph,-l:libigraph.a,$(DEPS_LIBS))
$B/package/libmemplan.so: $B/packaging/igraph_streams.o $B/libmemplan.a python/src/memplan/library/calls.py
	@mkdir -p $(@D)
	@{ echo '{ global:'; sed -n 's/^    "\(mp_[a-z_]*\)": (.*/\1;/p' $(lastword $^); echo 'local: *; };'; } > $(@D)/calls.map
	$(call say,LD) $(CC) $(MP_CFLAGS) $(RPATH) -shared -Wl,-soname,libmemplan.so -Wl,--version-script=$(@D)/calls.map -Wl,--gc-sections \
	    -Wl,--wrap=stdout,--wrap=stderr $(if $(SAN_FLAGS),,-Wl$(comma)-z$(comma)defs) $$(sed -n 's/^\(mp_.*\);/-Wl,-u,\1/p' $(@D)/calls.map) \
	    -o $@ $(filter %.o %.a,$^) -Wl,--as-needed $(PACKAGE_LIBS)
$B/package/memplan: $(CLI_OBJ) $B/libmemplan.a
	@mkdir -p $(@D)
	$(call say,LD) $(CC) $(MP_CFLAGS) -rdynamic -Wl,--gc-sections -o $@ $(CLI_OBJ) $(WHOLE_LIBRARY) -Wl,--as-needed $(PACKAGE_LIBS)
$B/packaging/%.o: MP_CFLAGS += $(PIC_FLAGS)

.PHONY: test-python bench-python wheel
