// Answers that have to call a tool are held to the calls' form, as are those that may, where a request says more of
// calls than that they may come.
#include "serve/tools.h"

#include <fmt/format.h>

#include <algorithm>
#include <vector>

#include "generate/form.h"
#include "text/chat/tool_calls.h"

namespace hone::serve {
namespace {

using nlohmann::ordered_json;

constexpr const char *kTools = "tools", *kChoice = "tool_choice", *kParallel = "parallel_tool_calls";

enum class Calling { automatic, none, required, named };

struct WishedCalls {
  Calling choice = Calling::automatic;
  std::string name = {};  // of the function, where it is named
};

[[noreturn]] void wrong_choice(const ordered_json& given) {
  Fields::wrong(kChoice, given,
                R"(auto, none, required, or {"type": "function", "function": {"name": …}})");
}

WishedCalls read_choice(const ordered_json* given) {
  if (!given || *given == "auto") return {};
  if (*given == "none") return {Calling::none};
  if (*given == "required") return {Calling::required};
  if (!given->is_object() || given->value("type", ordered_json()) != "function" || given->size() != 2)
    wrong_choice(*given);
  const auto function = given->find("function");
  if (function == given->end() || !function->is_object() || function->size() != 1) wrong_choice(*given);
  const auto name = function->find("name");
  if (name == function->end() || !name->is_string()) wrong_choice(*given);
  return {Calling::named, name->get<std::string>()};
}

// The arguments' schema. What find_tool_calls() takes for a call has an object.
std::string schema_of(const ordered_json& function, const std::string& where) {
  const auto found = function.find("parameters");
  if (found == function.end() || found->is_null()) return R"({"type": "object", "additionalProperties": false})";
  const std::string path = where + ".parameters";
  if (!found->is_object()) throw Refused(400, path + ": expected an object, a JSON Schema", kTools);
  ordered_json schema = *found;
  if (!schema.contains("type")) schema["type"] = "object";
  if (schema["type"] != "object")
    throw Refused(400, path + ".type: expected object: arguments have names", kTools);
  return schema.dump(-1, ' ', false, ordered_json::error_handler_t::replace);
}

bool is_strict(const ordered_json& tool) {
  if (!tool.is_object() || !tool.contains("function") || !tool["function"].is_object()) return false;
  const auto strict = tool["function"].find("strict");
  if (strict == tool["function"].end() || strict->is_null()) return false;
  if (!strict->is_boolean()) Fields::wrong(kTools, *strict, "strict: true or false");
  return strict->get<bool>();
}

// by_schema: of all functions, whether they are strict or not.
std::vector<text::CallForm::Function> functions_of(const ordered_json& tools, bool by_schema) {
  std::vector<text::CallForm::Function> functions;
  for (std::size_t i = 0; i < tools.size(); ++i) {
    const std::string where = fmt::format("tools[{}].function", i);
    const ordered_json& tool = tools[i];
    const bool is_function = tool.is_object() && tool.contains("function") && tool["function"].is_object() &&
                             tool["function"].contains("name") && tool["function"]["name"].is_string() &&
                             tool.value("type", ordered_json("function")) == "function";
    if (!is_function)
      throw Refused(400, where + ": expected an object with a name, of a tool of type function", kTools);
    const ordered_json& function = tool["function"];
    const std::string name = function["name"].get<std::string>();
    if (std::ranges::find(functions, name, &text::CallForm::Function::name) != functions.end())
      throw Refused(400, fmt::format("{}.name: {} comes twice", where, hone::quoted(name)), kTools);
    functions.push_back({name, by_schema || is_strict(tool) ? schema_of(function, where) : "", where + ".parameters"});
  }
  return functions;
}

void keep_the_named(std::vector<text::CallForm::Function>& functions, const std::string& name) {
  std::vector<std::string> names;
  for (const auto& function : functions) names.push_back(function.name);
  std::erase_if(functions, [&](const auto& function) { return function.name != name; });
  if (functions.empty())
    throw Refused(400, fmt::format("tool_choice: got {}, which is none of the tools; expected one of {}",
                                   hone::quoted(name), list_names(names)),
                  kChoice, "invalid_value");
}

// What is said to the server is none of the template's.
ordered_json for_template(ordered_json tools) {
  if (tools.is_array())
    for (ordered_json& tool : tools)
      if (tool.is_object() && tool.contains("function") && tool["function"].is_object())
        tool["function"].erase("strict");
  return tools;
}

}  // namespace

AskedTools read_tools(Fields& fields, const Served& served) {
  const WishedCalls wish = read_choice(fields.find(kChoice));
  const ordered_json* tools = fields.find(kTools);
  const bool several = fields.flag(kParallel, true);
  AskedTools asked;
  const bool must = wish.choice == Calling::required || wish.choice == Calling::named;
  if (!tools || (tools->is_array() && tools->empty())) {
    if (must) throw Refused(400, "tool_choice: there are no tools to choose from", kChoice);
    return asked;
  }
  if (wish.choice == Calling::none) return asked;
  asked.tools = for_template(*tools), asked.is_named = wish.choice == Calling::named;
  const bool strict = tools->is_array() && std::ranges::any_of(*tools, is_strict);
  if (!must && several && !strict) return asked;
  asked.asked_by = must ? kChoice : strict ? kTools : kParallel;
  if (!served.finds_tool_calls)
    throw Refused(400,
                  fmt::format("{}: the model's chat template does not have calls between <tool_call> and </tool_call>, "
                              "the form to which they can be held here",
                              must ? kChoice : strict ? "tools[].function.strict" : kParallel),
                  asked.asked_by, "unsupported_value");
  if (!tools->is_array()) Fields::wrong(kTools, *tools, "a list of tools");
  asked.form = text::CallForm{.functions = functions_of(*tools, must), .must_call = must, .several = several};
  if (asked.is_named) keep_the_named(asked.form->functions, wish.name), asked.form->several = false;
  return asked;
}

bool begins_thinking(const std::string& prompt) { return trim(prompt).ends_with(text::CallMarks::think); }

FormMaker maker_of_calls(AskedTools asked, const std::string& prompt, const Served& served) {
  if (!asked.form) return {};
  using Thinking = text::CallForm::Thinking;
  using Marks = text::CallMarks;
  text::CallForm& form = *asked.form;
  if (begins_thinking(prompt))
    form.thinking = Thinking::is_begun;
  else if (served.template_reads(std::string(Marks::think)) && !trim(prompt).ends_with(Marks::thought))
    form.thinking = Thinking::may_come;
  return [asked = std::move(asked), &served](const ToBeHeld& answers) {
    const text::CallForm& form = *asked.form;
    std::string key = fmt::format("{} {} {}", form.must_call, form.several, static_cast<int>(form.thinking));
    for (const auto& function : form.functions) key += ordered_json({function.name, function.schema}).dump();
    try {
      auto made = generate::form_of({"tools", key, [&] { return text::grammar_of_calls(form); }}, *served.tokenizer,
                                    served.model->vocab_size());
      for (const auto& prompt : answers.prompts) generate::check_form(made, "tools", *served.tokenizer, prompt);
      return made;
    } catch (const Error& error) {
      throw Refused(400, error.what(), asked.asked_by, "unsupported_value");
    }
  };
}

}  // namespace hone::serve
