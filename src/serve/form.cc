#include "serve/form.h"

#include "generate/form.h"

namespace hone::serve {
namespace {

using nlohmann::ordered_json;

constexpr const char *kFormat = "response_format", *kOutputs = "structured_outputs";

std::string one_line(const ordered_json& value) {
  return value.dump(-1, ' ', false, ordered_json::error_handler_t::replace);
}

// {type: json_schema, json_schema: {name, schema}}. Whether it is strict or not, answers are held to it.
std::string schema_of(const ordered_json& format) {
  const auto found = format.find("json_schema");
  if (found == format.end() || !found->is_object())
    throw Refused(400, "response_format.json_schema: expected an object with name and schema", kFormat);
  Fields fields(*found);
  fields.pass_over({"name", "description"});
  fields.flag("strict", true);
  const ordered_json* schema = fields.find("schema");
  if (!schema) throw Refused(400, "response_format.json_schema.schema: missing", kFormat);
  fields.require_all_read();
  return one_line(*schema);
}

void read_format(const ordered_json& format, GenerateConfig& config) {
  if (!format.is_object()) Fields::wrong(kFormat, format, "an object with a type");
  Fields fields(format);
  const std::string type = fields.text("type");
  if (type == "json_schema") {
    fields.pass_over({"json_schema"});
    config.json_schema = schema_of(format);
  } else if (type == "json_object") {
    config.json_schema = R"({"type": "object"})";
  } else if (type != "text") {
    Fields::wrong(kFormat, format, "the type text, json_object or json_schema");
  }
  fields.require_all_read();
}

// One of these texts, as a pattern.
std::string pattern_of(const ordered_json& choices) {
  if (!choices.is_array() || choices.empty()) Fields::wrong(kOutputs, choices, "a list of texts as choice");
  std::string pattern;
  for (const ordered_json& choice : choices) {
    if (!choice.is_string() || choice.get_ref<const std::string&>().empty())
      Fields::wrong(kOutputs, choices, "a list of texts as choice");
    if (!pattern.empty()) pattern += '|';
    for (const char c : choice.get_ref<const std::string&>()) {
      if (c > 0x20 && c < 0x7F && !std::isalnum(static_cast<unsigned char>(c))) pattern += '\\';
      pattern += c;
    }
  }
  return pattern;
}

void read_outputs(const ordered_json& outputs, GenerateConfig& config) {
  Fields fields(outputs);
  int forms = 0;
  if (const std::string regex = fields.text("regex"); !regex.empty()) config.regex = regex, ++forms;
  if (const ordered_json* choices = fields.find("choice")) config.regex = pattern_of(*choices), ++forms;
  if (const ordered_json* schema = fields.find("json"))
    config.json_schema = schema->is_string() ? schema->get<std::string>() : one_line(*schema), ++forms;
  if (fields.flag("json_object", false)) config.json_schema = R"({"type": "object"})", ++forms;
  fields.require_all_read();
  if (forms != 1)
    throw Refused(400, fmt::format("structured_outputs: got {} forms, expected one of regex, choice, json and "
                                   "json_object",
                                   forms),
                  kOutputs);
}

}  // namespace

std::string read_form(Fields& fields, GenerateConfig& config) {
  const ordered_json *format = fields.find(kFormat), *outputs = fields.find(kOutputs);
  if (format) read_format(*format, config);
  if (!outputs) return config.json_schema.empty() ? "" : kFormat;
  if (!config.json_schema.empty())
    throw Refused(400, "structured_outputs: beside response_format; an answer has one form", kOutputs);
  read_outputs(*outputs, config);
  return kOutputs;
}

FormMaker form_maker(const std::string& asked_by, bool has_tools, const Served& served) {
  if (asked_by.empty()) return {};
  if (has_tools)
    throw Refused(400, asked_by + ": beside tools: a call of a tool would not have the form", asked_by,
                  "unsupported_value");
  return [asked_by, &served](const ToBeHeld& answers) {
    try {
      auto form = generate::form_of(answers.config, *served.tokenizer, served.model->vocab_size());
      const char* what = answers.config.regex.empty() ? "json_schema" : "regex";
      for (const auto& prompt : answers.prompts) generate::check_form(form, what, *served.tokenizer, prompt);
      return form;
    } catch (const Error& error) {
      throw Refused(400, error.what(), asked_by, "unsupported_value");
    }
  };
}

}  // namespace hone::serve
