# Generated pages and the web site.
docs: $B/manual ## write the generated pages anew: commands.md, schemas/options.json, tuning.md, scorecard.md
	$B/manual markdown > docs/reference/commands.md
	$B/manual schema > docs/reference/schemas/options.json
	python3 -B tests/docs/tuning.py write
	python3 -B tests/docs/scorecard.py write

docs-site: | $B/venv/bin/python3 ## the pages as a web site with search in build/site (Sphinx, MyST and Furo in build/venv); a broken link is an error
	@$B/venv/bin/pip install -q sphinx myst-parser furo
	@$B/venv/bin/sphinx-build -q -E -W --keep-going -b html -c packaging/site -d $B/site-cache . $B/site
	@echo "site: open $B/site/index.html"

.PHONY: docs docs-site
