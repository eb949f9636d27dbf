/* SPDX-License-Identifier: Apache-2.0 */

/* `pagefs doctor`: can this host run pagefs, and what does it miss? */

#include "tools/doctor.h"

#include <jansson.h>
#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "tools/command.h"
#include "tools/tools.h"

struct doctor_options {
	char *disk;
	uint64_t memory;
	bool json;
};

#define FIELD(name) .offset = offsetof(struct doctor_options, name)

static const struct option_spec specs[] = {
	{.name = "disk",
	 .type = OPTION_STRING,
	 FIELD(disk),
	 .argument = "DIR",
	 .help = "directory of the disk tier",
	 .initial_help = "that of 'pagefs mount'"},
	{.name = "memory",
	 .type = OPTION_SIZE,
	 FIELD(memory),
	 .help = "size of the memory tier",
	 .initial_help = "a tenth of RAM"},
	{.name = "json",
	 .type = OPTION_FLAG,
	 FIELD(json),
	 .help = "one JSON array: name, outcome, found, costs, mend"},
	{.name = NULL},
};

static const struct command command = {
	.name = "doctor",
	.arguments = "[OPTION]...",
	.summary = "Check whether this host can run pagefs, and what it would "
		   "cost or gain.",
	.detail = "Changes nothing. Run it as the user who will mount. Exit "
		  "code 1 where something\nfails; warnings are losses that "
		  "pagefs can live with.",
	.examples = "  pagefs doctor\n"
		    "  pagefs doctor --disk /mnt/nvme/pagefs --memory 64G",
	.specs = specs,
};

static const struct doctor_check *const groups[] = {
	doctor_fuse_checks,
	doctor_io_checks,
	doctor_limit_checks,
	doctor_space_checks,
};
#define GROUPS (sizeof(groups) / sizeof(*groups))

static const char *const outcome_names[] = {
	[DOCTOR_OK] = "ok", [DOCTOR_WARN] = "warn", [DOCTOR_FAIL] = "fail"};

/* Where `pagefs mount` puts the disk tier by default. */
static void default_disk(char ret[PATH_MAX], bool is_root)
{
	const char *data = getenv("XDG_DATA_HOME"), *home = getenv("HOME");

	if (is_root)
		snprintf(ret, PATH_MAX, "/var/lib/pagefs");
	else if (data && *data)
		snprintf(ret, PATH_MAX, "%s/pagefs", data);
	else
		snprintf(ret, PATH_MAX, "%s/.local/share/pagefs",
			 home ? home : "");
}

static void print_finding(const char *name, const struct finding *finding)
{
	printf("%-5s %-14s %s\n", outcome_names[finding->outcome], name,
	       finding->found);
	if (finding->outcome == DOCTOR_OK)
		return;
	printf("      %-14s %s\n", "  costs", finding->costs);
	printf("      %-14s %s\n", "  mend", finding->mend);
}

static json_t *finding_json(const char *name, const struct finding *finding)
{
	json_t *row = json_pack("{s:s, s:s, s:s}", "name", name, "outcome",
				outcome_names[finding->outcome], "found",
				finding->found);

	if (finding->outcome != DOCTOR_OK) {
		json_object_set_new(row, "costs", json_string(finding->costs));
		json_object_set_new(row, "mend", json_string(finding->mend));
	}
	return row;
}

static void examine(const struct doctor *doctor, json_t *rows,
		    unsigned counts[3])
{
	struct finding finding;

	for (size_t i = 0; i < GROUPS; i++)
		for (const struct doctor_check *check = groups[i]; check->name;
		     check++) {
			check->run(doctor, &finding);
			counts[finding.outcome]++;
			if (rows)
				json_array_append_new(
					rows,
					finding_json(check->name, &finding));
			else
				print_finding(check->name, &finding);
		}
}

static int run(const struct doctor_options *values)
{
	json_t *rows = values->json ? json_array() : NULL;
	unsigned counts[3] = {0};
	struct doctor doctor;
	char disk[PATH_MAX];
	int error = doctor_look(values->disk, values->memory, &doctor);

	if (error)
		return command_fail(&command, "%s", strerror(-error));
	if (!values->disk) {
		default_disk(disk, doctor.is_root);
		doctor.disk = disk;
	}
	examine(&doctor, rows, counts);
	if (rows) {
		json_dumpf(rows, stdout, JSON_INDENT(1));
		putchar('\n');
		json_decref(rows);
	} else {
		printf("%u ok, %u warnings, %u failures\n", counts[DOCTOR_OK],
		       counts[DOCTOR_WARN], counts[DOCTOR_FAIL]);
	}
	return counts[DOCTOR_FAIL] ? COMMAND_FAILED : COMMAND_OK;
}

int tool_doctor(int argc, char **argv)
{
	struct doctor_options values;
	struct options options;
	int first, code;

	if (command_parse(&command, argc, argv, &values, &options, &first,
			  &code))
		code = run(&values);
	options_release(&options);
	return code;
}
