// Fields of wandb_internal.proto. Names are `key`, not `nested_key`: all versions of wandb read that.
#include "trackers/wandb_records.h"

#include <fmt/format.h>

#include <cmath>

#include "base/strings.h"
#include "trackers/protobuf.h"

namespace hone::trackers {
namespace {

constexpr const char* kProducer = "hone " HONE_VERSION;

// Numbers of fields of the messages that the kinds of Record hold.
enum class HeaderField { version_info = 1, producer = 1 };
enum class RunField {
  run_id = 1,
  entity = 2,
  project = 3,
  config = 4,
  run_group = 6,
  display_name = 8,
  notes = 9,
  tags = 10,
  host = 13,
  start_time = 17
};
enum class MetricField { name = 1, glob_name = 2, step_metric = 4, options = 6 };
enum class MetricOption { step_sync = 1, defined = 3 };
enum class HistoryField { step = 2, step_number = 1 };
enum class ExitField { exit_code = 1, runtime = 2 };
enum class TimeField { seconds = 1 };
// One message under several names: of a config, a summary and a line of the history.
enum class ItemField { item = 1, key = 1, value_json = 16 };

// What is 0 or empty is not written, as in proto3.
template <class Field>
std::string number_field(Field field, std::int64_t value) {
  return value == 0 ? "" : int_field(static_cast<std::uint64_t>(field), static_cast<std::uint64_t>(value));
}
template <class Field>
std::string message_field(Field field, const std::string& message) {
  return bytes_field(static_cast<std::uint64_t>(field), message);
}
template <class Field>
std::string text_field(Field field, const std::string& text) {
  return text.empty() ? "" : message_field(field, with_replaced_utf8(text));
}
template <class Field>
bool is_field(const Fields& fields, Field field) {
  return fields.number == static_cast<std::uint64_t>(field);
}

std::string items(const WandbValues& values) {
  std::string message;
  for (const auto& [name, json] : values)
    message +=
        message_field(ItemField::item, text_field(ItemField::key, name) + text_field(ItemField::value_json, json));
  return message;
}

std::int64_t read_time(std::string_view message) {
  std::int64_t seconds = 0;
  for (Fields field(message); field.next();)
    if (is_field(field, TimeField::seconds)) seconds = static_cast<std::int64_t>(field.value);
  return seconds;
}

}  // namespace

std::string json_number(double value) {
  if (std::isnan(value)) return "NaN";
  if (std::isinf(value)) return value < 0 ? "-Infinity" : "Infinity";
  return fmt::format("{}", value);
}

WandbRecord wandb_header() {
  return {kWandbHeader, message_field(HeaderField::version_info, text_field(HeaderField::producer, kProducer))};
}

WandbRecord wandb_run(const WandbRun& run) {
  std::string content = text_field(RunField::run_id, run.id) + text_field(RunField::entity, run.entity) +
                        text_field(RunField::project, run.project) +
                        message_field(RunField::config, items(run.config)) +
                        text_field(RunField::run_group, run.group) + text_field(RunField::display_name, run.name) +
                        text_field(RunField::notes, run.notes);
  for (const std::string& tag : run.tags) content += text_field(RunField::tags, tag);
  content += text_field(RunField::host, run.host) +
             message_field(RunField::start_time, number_field(TimeField::seconds, run.start));
  return {kWandbRun, content, /*is_answered=*/true};
}

WandbRecord wandb_step_metric() {
  return {kWandbMetric, text_field(MetricField::name, kGlobalStep) +
                            message_field(MetricField::options, number_field(MetricOption::defined, 1))};
}

WandbRecord wandb_other_metrics() {
  return {kWandbMetric, text_field(MetricField::glob_name, "*") + text_field(MetricField::step_metric, kGlobalStep) +
                            message_field(MetricField::options, number_field(MetricOption::step_sync, 1) +
                                                                    number_field(MetricOption::defined, 1))};
}

WandbRecord wandb_summary(const WandbValues& values) { return {kWandbSummary, items(values)}; }

WandbRecord wandb_history(const WandbValues& values, std::int64_t line) {
  return {kWandbHistory,
          items(values) + message_field(HistoryField::step, number_field(HistoryField::step_number, line))};
}

WandbRecord wandb_exit(double runtime_s) {
  return {kWandbExit, number_field(ExitField::runtime, static_cast<std::int64_t>(runtime_s))};
}

bool is_hones_header(const WandbRecord& record) {
  if (record.kind != kWandbHeader) return false;
  for (Fields header(record.content); header.next();)
    for (Fields version(header.content); version.next();)
      if (is_field(version, HeaderField::producer)) return version.content.starts_with("hone ");
  return false;
}

WandbRun read_wandb_run(std::string_view content) {
  WandbRun run;
  for (Fields field(content); field.next();) {
    if (is_field(field, RunField::run_id)) run.id = field.content;
    if (is_field(field, RunField::entity)) run.entity = field.content;
    if (is_field(field, RunField::project)) run.project = field.content;
    if (is_field(field, RunField::start_time)) run.start = read_time(field.content);
  }
  return run;
}

WandbValues read_wandb_values(std::string_view content) {
  WandbValues values;
  for (Fields field(content); field.next();) {
    if (!is_field(field, ItemField::item)) continue;
    std::string name;
    for (Fields item(field.content); item.next();) {
      if (is_field(item, ItemField::key)) name = item.content;
      if (is_field(item, ItemField::value_json)) values[name] = item.content;
    }
  }
  return values;
}

}  // namespace hone::trackers
