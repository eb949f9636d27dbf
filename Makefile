# SPDX-License-Identifier: Apache-2.0
#
# One Makefile for the whole tree; "make help" lists the targets. Sources are
# found by wildcard, so a new file needs no line here. Everything that is built
# lies below $(BUILD).
#
#   make V=1                      show the commands
#   make BUILD=build/asan         the same targets, under ASan and UBSan
#   make BUILD=build/tsan         the same targets, under TSan
#   make CC=clang BUILD=build/clang
#
# A test that needs linker options of its own (--wrap=...) has them in a file
# beside it: tests/store/test_bucket.c and tests/store/test_bucket.ldflags.

MAKEFLAGS += --no-builtin-rules
.SUFFIXES:
.DELETE_ON_ERROR:
.DEFAULT_GOAL := all

BUILD ?= build
PREFIX ?= /usr/local
DESTDIR ?=
ifeq ($(origin CC),default)
CC := gcc
endif
AR := ar
CLANG ?= clang
CLANG_FORMAT ?= clang-format
CLANG_TIDY ?= clang-tidy
PKG_CONFIG ?= pkg-config
FUZZ_SECONDS ?= 60
TEST_SECONDS ?= 300
CRASH_ROUNDS ?= 200
VERSION := 0.1.0

V ?= 0
ifeq ($(V),1)
Q :=
say = @:
else
Q := @
say = @printf '  %-5s %s\n' '$(1)' '$(2)'
endif

# ---- flags -------------------------------------------------------------------

# The flavour is the last part of $(BUILD).
SANITIZE_asan := address,undefined
SANITIZE_tsan := thread
SANITIZE_fuzz := fuzzer-no-link,address,undefined
SANITIZE ?= $(SANITIZE_$(notdir $(BUILD)))

PACKAGES := fuse3 liburing libxxhash jansson
ifeq ($(filter clean help format check-format check-layers,$(MAKECMDGOALS)),)
ifneq ($(shell $(PKG_CONFIG) --exists $(PACKAGES) cmocka && echo yes),yes)
$(error libraries are missing ($(PACKAGES) cmocka): run tools/install-deps)
endif
endif
PACKAGE_CFLAGS := $(patsubst -I%,-isystem %,$(shell \
	$(PKG_CONFIG) --cflags $(PACKAGES) cmocka 2>/dev/null))
PACKAGE_LIBS := $(shell $(PKG_CONFIG) --libs $(PACKAGES) 2>/dev/null) -llmdb -lm
TEST_LIBS := $(shell $(PKG_CONFIG) --libs cmocka 2>/dev/null)

CONVERSION := -Wconversion -Wsign-conversion
WARNINGS := -Wall -Wextra -Wpedantic -Wshadow -Wcast-qual \
	-Wstrict-prototypes -Wmissing-prototypes -Wwrite-strings -Wformat=2 \
	-Wundef -Wvla -Wimplicit-fallthrough
ifneq ($(filter true 1,$(CI) $(WERROR)),)
WARNINGS += -Werror
endif

BASE_CPPFLAGS := -I. $(PACKAGE_CFLAGS) -D_GNU_SOURCE -D_FILE_OFFSET_BITS=64 \
	-DPAGEFS_VERSION='"$(VERSION)"'
BASE_CFLAGS := -std=gnu11 -O2 -g -fno-common -fstack-protector-strong -fPIE \
	-pthread
BASE_LDFLAGS := -pie -pthread -Wl,-z,relro -Wl,-z,now -Wl,--as-needed
ifneq ($(SANITIZE),)
BASE_CFLAGS += -O1 -fno-omit-frame-pointer -fsanitize=$(SANITIZE)
BASE_LDFLAGS += -fsanitize=$(SANITIZE)
ifneq ($(findstring undefined,$(SANITIZE)),)
BASE_CFLAGS += -fno-sanitize-recover=undefined
endif
else ifeq ($(filter -O0,$(CFLAGS)),)
# Neither with a sanitizer, whose interceptors it bypasses, nor without -O.
BASE_CPPFLAGS += -U_FORTIFY_SOURCE -D_FORTIFY_SOURCE=2
endif

# The user's own come last, so that they win.
TEST_FLAGS = $(BASE_CPPFLAGS) $(BASE_CFLAGS) $(WARNINGS) $(CPPFLAGS) $(CFLAGS)
CODE_FLAGS = $(BASE_CPPFLAGS) $(BASE_CFLAGS) $(WARNINGS) $(CONVERSION) \
	$(CPPFLAGS) $(CFLAGS)
LINK_FLAGS = $(BASE_LDFLAGS) $(CFLAGS) $(LDFLAGS)

# ---- sources -----------------------------------------------------------------

FOLDERS := lib store meta transport cache fs tools
SOURCES_lib := $(wildcard tools/lib/*.c)
SOURCES_store := $(wildcard store/*.c)
SOURCES_meta := $(wildcard meta/*.c)
SOURCES_transport := $(wildcard transport/*.c)
SOURCES_cache := $(wildcard cache/*.c)
SOURCES_fs := $(filter-out fs/main.c,$(wildcard fs/*.c fs/ops/*.c))
SOURCES_tools := $(wildcard tools/*.c)

# What a folder's tests are linked with: the folder, and what it may see.
SEES_lib := lib
SEES_store := store lib
SEES_meta := meta lib
SEES_transport := transport lib
SEES_cache := cache meta store transport lib
SEES_fs := $(FOLDERS)
SEES_tools := $(FOLDERS)
SEES_mounted := $(FOLDERS)
SEES_crash := $(FOLDERS)

archives = $(foreach f,$(SEES_$(1)),$(BUILD)/lib$(f).a)
objects = $(patsubst %.c,$(BUILD)/obj/%.o,$(1))
group = -Wl,--start-group $(1) -Wl,--end-group

TEST_FOLDERS := $(FOLDERS) mounted crash
programs = $(patsubst %.c,$(BUILD)/%,$(wildcard tests/$(1)/test_*.c))
tests = $(call programs,$(1)) $(wildcard tests/$(1)/*.sh)
UNIT_TESTS := $(foreach f,$(FOLDERS),$(call tests,$(f)))
MOUNTED_TESTS := $(call tests,mounted)
CRASH_TESTS := $(call tests,crash)
FUZZ_TARGETS := $(patsubst %.c,$(BUILD)/%,$(wildcard tests/fuzz/fuzz_*.c))

# None before there is a main.
PROGRAM := $(patsubst fs/main.c,$(BUILD)/pagefs,$(wildcard fs/main.c))
SOURCES := $(foreach f,$(FOLDERS),$(SOURCES_$(f))) $(wildcard fs/main.c)
TEST_SOURCES := $(wildcard tests/*/*.c)
HEADERS := $(wildcard tools/*.h tools/lib/*.h store/*.h meta/*.h cache/*.h \
	fs/*.h fs/ops/*.h transport/*.h tests/*/*.h)

# ---- what is built -----------------------------------------------------------

.PHONY: all
all: ## build pagefs and, where there is clang, the fuzz targets
all: $(PROGRAM) $(if $(SANITIZE),,fuzz-build)

$(BUILD)/pagefs: $(BUILD)/obj/fs/main.o $(call archives,fs)
	$(call say,LINK,$@)
	$(Q)$(CC) $(LINK_FLAGS) -o $@ $< $(call group,$(call archives,fs)) \
		$(PACKAGE_LIBS)

# Written only when they change: what depends on them is rebuilt then.
.PHONY: FORCE
FORCE:
remember = $(Q)mkdir -p $(@D); new='$(subst ','"'"',$(1))'; \
	[ "$$new" = "$$(cat $@ 2>/dev/null)" ] || printf '%s\n' "$$new" >$@
$(BUILD)/flags.txt: FORCE
	$(call remember,$(CC) $(CODE_FLAGS) $(LINK_FLAGS) $(PACKAGE_LIBS))
$(BUILD)/sources.txt: FORCE
	$(call remember,$(SOURCES) $(TEST_SOURCES))

$(BUILD)/obj/%.o: %.c $(BUILD)/flags.txt
	$(call say,CC,$@)
	$(Q)mkdir -p $(@D)
	$(Q)$(CC) $(CODE_FLAGS) -MMD -MP -c -o $@ $<

$(BUILD)/obj/tests/%.o: tests/%.c $(BUILD)/flags.txt
	$(call say,CC,$@)
	$(Q)mkdir -p $(@D)
	$(Q)$(CC) $(TEST_FLAGS) -MMD -MP -c -o $@ $<

define archive_rule
$(BUILD)/lib$(1).a: $(call objects,$(SOURCES_$(1))) $(BUILD)/sources.txt
	$$(call say,AR,$$@)
	$$(Q)rm -f $$@
	$$(Q)$(AR) rcs $$@ $$(filter %.o,$$^)
endef
$(foreach f,$(FOLDERS),$(eval $(call archive_rule,$(f))))

# The other .c files of a test folder are linked into each of its tests.
helpers = $(call objects,$(filter-out tests/$(1)/test_%, \
	$(wildcard tests/$(1)/*.c)))
define test_rule
$(patsubst %,$(BUILD)/tests/$(1)/test_%,$(2)): $(BUILD)/tests/$(1)/test_%: \
		$(BUILD)/obj/tests/$(1)/test_%.o $(call helpers,$(1)) \
		$(call archives,$(1)) $(wildcard tests/$(1)/*.ldflags)
	$$(call say,LINK,$$@)
	$$(Q)mkdir -p $$(@D)
	$$(Q)$(CC) $(LINK_FLAGS) -o $$@ $$(filter %.o,$$^) \
		$$(addprefix @,$$(wildcard tests/$(1)/test_$$*.ldflags)) \
		$(call group,$(call archives,$(1))) $(TEST_LIBS) $(PACKAGE_LIBS)
endef
$(foreach f,$(TEST_FOLDERS),$(if $(call programs,$(f)),$(eval $(call \
	test_rule,$(f),$(patsubst test_%,%,$(notdir $(call programs,$(f))))))))

# ---- fuzz targets: clang only, in a flavour of their own ------------------------

HAVE_CLANG := $(shell command -v $(CLANG) 2>/dev/null)
IN_FUZZ = $(MAKE) --no-print-directory CC=$(CLANG) BUILD=$(BUILD)/fuzz

.PHONY: fuzz fuzz-build fuzz-targets fuzz-run
ifeq ($(FUZZ_TARGETS),)
fuzz fuzz-build:
	@:
else ifeq ($(HAVE_CLANG),)
fuzz fuzz-build:
	@echo "no $(CLANG) here: the fuzz targets are not built"
else
fuzz-build:
	$(Q)+$(IN_FUZZ) fuzz-targets
fuzz: ## run each fuzz target for FUZZ_SECONDS (60)
	$(Q)+$(IN_FUZZ) fuzz-run
endif

fuzz-targets: $(FUZZ_TARGETS)

# A fuzz target is linked with the folders that it includes.
included = $(shell sed -n -e 's|^.include "tools/lib/.*|lib|p' \
	-e 's|^.include "\([a-z]*\)/.*|\1|p' $(1) | sort -u)
define fuzz_rule
$(BUILD)/$(1): $(BUILD)/obj/$(1).o \
		$(sort $(foreach f,$(call included,$(1).c),$(call archives,$(f))))
	$$(call say,LINK,$$@)
	$$(Q)mkdir -p $$(@D)
	$$(Q)$(CC) $(LINK_FLAGS) -fsanitize=fuzzer -o $$@ $$(filter %.o,$$^) \
		$$(call group,$$(filter %.a,$$^)) $(PACKAGE_LIBS)
endef
$(foreach t,$(patsubst $(BUILD)/%,%,$(FUZZ_TARGETS)), \
	$(eval $(call fuzz_rule,$(t))))

fuzz-run: $(FUZZ_TARGETS)
	$(Q)set -e; for t in $^; do \
		name=$${t##*/fuzz_}; \
		corpus=$(BUILD)/corpus/$$name; mkdir -p $$corpus; \
		seeds=; ! [ -d tests/fuzz/$$name ] || seeds=tests/fuzz/$$name; \
		echo "fuzz $$name for $(FUZZ_SECONDS) s"; \
		$$t -max_total_time=$(FUZZ_SECONDS) -verbosity=0 \
			-print_final_stats=1 -artifact_prefix=$$corpus- \
			$$corpus $$seeds; \
	done

# ---- tests -------------------------------------------------------------------

ASAN_BUILD := $(if $(filter asan,$(notdir $(BUILD))),$(BUILD),$(BUILD)/asan)
TSAN_BUILD := $(if $(filter tsan,$(notdir $(BUILD))),$(BUILD),$(BUILD)/tsan)
IN_ASAN = $(MAKE) --no-print-directory BUILD=$(ASAN_BUILD)
IN_TSAN = $(MAKE) --no-print-directory BUILD=$(TSAN_BUILD)

export ASAN_OPTIONS ?= detect_stack_use_after_return=1:strict_string_checks=1
export UBSAN_OPTIONS ?= print_stacktrace=1
# LMDB's own locks are taken under the index's writer lock, in either order.
export TSAN_OPTIONS ?= halt_on_error=0:second_deadlock_stack=1:suppressions=$(CURDIR)/tests/tsan.supp

RUN = PAGEFS_BIN=$(abspath $(BUILD)/pagefs) CC='$(CC)' \
	CLANG_FORMAT='$(CLANG_FORMAT)' CPPFLAGS='$(BASE_CPPFLAGS)' \
	tests/run --seconds $(TEST_SECONDS)
CHECKS := tools/check-format tools/check-headers tools/check-layers
CHECK_ROUNDS := $(if $(filter true,$(CI)),$(CRASH_ROUNDS),20)

.PHONY: check check-mounted check-crash unit unit-tests test-programs
check: ## everything that must hold before a commit; ends with the counts
check: all $(MOUNTED_TESTS) $(CRASH_TESTS)
	$(Q)+$(IN_ASAN) unit-tests
	$(Q)PAGEFS_TEST_SHORT=1 CRASH_ROUNDS=$(CHECK_ROUNDS) $(RUN) $(CHECKS) \
		$(patsubst $(BUILD)/%,$(ASAN_BUILD)/%,$(UNIT_TESTS)) \
		$(MOUNTED_TESTS) $(CRASH_TESTS)

unit: ## run the unit tests; unit-store and so on: those of one folder
unit: $(UNIT_TESTS)
	$(Q)$(RUN) $^
unit-tests: $(UNIT_TESTS)
test-programs: $(PROGRAM) $(UNIT_TESTS) $(MOUNTED_TESTS) $(CRASH_TESTS)

define unit_rule
.PHONY: unit-$(1)
unit-$(1): $(call tests,$(1))
	$$(Q)$$(RUN) $$^
endef
$(foreach f,$(FOLDERS),$(eval $(call unit_rule,$(f))))

check-mounted: ## run the tests that mount build/pagefs
check-mounted: $(MOUNTED_TESTS) $(BUILD)/pagefs
	$(Q)$(RUN) $(MOUNTED_TESTS)

check-crash: ## kill -9 under load, CRASH_ROUNDS (200) times
check-crash: $(CRASH_TESTS) $(BUILD)/pagefs
	$(Q)CRASH_ROUNDS=$(CRASH_ROUNDS) $(RUN) $(CRASH_TESTS)

.PHONY: check-format check-headers check-layers
check-format: ## is everything laid out as .clang-format says?
check-headers: ## does every header compile alone?
check-layers: ## does every folder include only what it may?
check-format check-headers check-layers:
	$(Q)CC='$(CC)' CLANG_FORMAT='$(CLANG_FORMAT)' \
		CPPFLAGS='$(BASE_CPPFLAGS)' tools/$@

.PHONY: asan tsan bench tidy format
asan: ## build and run the unit tests under ASan and UBSan
	$(Q)+$(IN_ASAN) all unit
tsan: ## build and run the unit tests under TSan
	$(Q)+$(IN_TSAN) all unit

bench: ## measure, and write build/bench.json
bench: $(BUILD)/pagefs
	$(Q)$< bench io --output $(BUILD)/bench.json

tidy: ## run clang-tidy
	$(Q)$(CLANG_TIDY) --quiet $(SOURCES) -- $(BASE_CPPFLAGS) -std=gnu11

FILES ?= $(SOURCES) $(TEST_SOURCES) $(HEADERS)
format: ## lay out FILES (all) as .clang-format says
	$(Q)$(CLANG_FORMAT) -i $(FILES)

# ---- the rest ------------------------------------------------------------------

MAN_PAGES := $(wildcard tools/man/*.[1358])
MAN_DIR = $(DESTDIR)$(PREFIX)/share/man
BASH_COMPLETION = $(DESTDIR)$(PREFIX)/share/bash-completion/completions/pagefs
ZSH_COMPLETION = $(DESTDIR)$(PREFIX)/share/zsh/site-functions/_pagefs

.PHONY: install uninstall clean help
install: ## install below DESTDIR and PREFIX (/usr/local)
install: $(BUILD)/pagefs
	install -D -m 0755 $< $(DESTDIR)$(PREFIX)/bin/pagefs
	set -e; for page in $(MAN_PAGES); do \
		install -D -m 0644 $$page \
			$(MAN_DIR)/man$${page##*.}/$${page##*/}; \
	done
	install -D -m 0644 tools/completion/pagefs.bash $(BASH_COMPLETION)
	install -D -m 0644 tools/completion/_pagefs $(ZSH_COMPLETION)

uninstall: ## remove what install put there
	rm -f $(DESTDIR)$(PREFIX)/bin/pagefs
	for page in $(MAN_PAGES); do \
		rm -f $(MAN_DIR)/man$${page##*.}/$${page##*/}; \
	done
	rm -f $(BASH_COMPLETION) $(ZSH_COMPLETION)

clean: ## remove what was built
	rm -rf $(BUILD)

help: ## this list
	@sed -n 's/^\([a-z-]*\): ## \(.*\)/\1|\2/p' Makefile | \
		while IFS='|' read -r name text; do \
			printf '%-14s %s\n' "$$name" "$$text"; \
		done
	@echo 'V=1 shows the commands; BUILD=build/asan (tsan) is another flavour; CC, CFLAGS,'
	@echo 'LDFLAGS, PREFIX and DESTDIR are as usual.'

-include $(patsubst %.o,%.d,$(call objects,$(SOURCES) $(TEST_SOURCES)))
