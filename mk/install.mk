# Program, library and documents below PREFIX, and as a Debian package.
install: $B/memplan $B/libmemplan.so $B/manual $(MODULES) ## program, library, headers, completion, manual and a pkg-config file under PREFIX
	install -D -m 755 $B/memplan $(DESTDIR)$(PREFIX)/bin/memplan
	install -D -m 644 $B/libmemplan.a $(DESTDIR)$(PREFIX)/lib/libmemplan.a
	install -D -m 755 $B/libmemplan.so $(DESTDIR)$(PREFIX)/lib/libmemplan.so
	install -D -m 644 cli/completion.bash $(DESTDIR)$(PREFIX)/share/bash-completion/completions/memplan
	install -D -m 644 cli/completion.zsh $(DESTDIR)$(PREFIX)/share/zsh/site-functions/_memplan
	install -D -m 644 cli/completion.fish $(DESTDIR)$(PREFIX)/share/fish/vendor_completions.d/memplan.fish
	$(if $(MODULES),install -D -m 755 $(MODULES) -t $(DESTDIR)$(PREFIX)/lib/memplan)
	install -D -m 644 include/memplan/*.h -t $(DESTDIR)$(PREFIX)/include/memplan
	$(foreach f,pictures ranks studies workloads,install -D -m 644 include/memplan/$f/*.h -t $(DESTDIR)$(PREFIX)/include/memplan/$f &&) true
	$(foreach f,tutorials guides reference internals,install -D -m 644 docs/$f/*.md -t $(DESTDIR)$(PREFIX)/share/doc/memplan/$f &&) install -D -m 644 docs/README.md -t $(DESTDIR)$(PREFIX)/share/doc/memplan
	install -D -m 644 docs/reference/schemas/*.json -t $(DESTDIR)$(PREFIX)/share/memplan/schemas
	ln -sfn ../../memplan/schemas $(DESTDIR)$(PREFIX)/share/doc/memplan/schemas
	mkdir -p $(DESTDIR)$(PREFIX)/lib/pkgconfig $(DESTDIR)$(PREFIX)/share/man/man1
	$B/manual man > $(DESTDIR)$(PREFIX)/share/man/man1/memplan.1
	for c in $$($B/manual names); do $B/manual man $$c > $(DESTDIR)$(PREFIX)/share/man/man1/memplan-$$c.1 || exit 1; done
	sed -e 's|@PREFIX@|$(PREFIX)|' -e 's|@LIBS@|$(DEPS_LIBS) $(OPENMP_LIBS)|' -e 's|@VERSION@|$(VERSION)|' \
	    -e 's|@RPATH@|$(if $(filter /usr,$(PREFIX)),,-Wl,-rpath,$${libdir} )|' memplan.pc.in \
	    > $(DESTDIR)$(PREFIX)/lib/pkgconfig/memplan.pc

deb: $B/memplan $B/libmemplan.so ## a Debian package in build/, for the system that it is built on
	@packaging/deb.sh $B $(VERSION) "$(MAKE)"

.PHONY: install deb
