// Help texts are made from the declarations of the commands themselves.
#include "cli/help.h"

#include <fmt/format.h>

#include <nlohmann/json.hpp>

#include "base/progress.h"
#include "base/strings.h"
#include "config/documents.h"
#include "hone/command.h"

namespace hone::cli {
namespace {

using nlohmann::ordered_json;

std::vector<config::OptionInfo> common_flags() { return config::OptionsOf<CommonFlags>().describe(); }

Usage usage_of(const CommandEntry& command) { return command.make(*command.options())->usage(); }

// A default as the value that it is.
ordered_json value_of(const config::OptionInfo& row) {
  if (row.default_text.empty()) return nullptr;
  const bool is_text = row.type == "string" || !row.choices.empty();
  ordered_json value = is_text ? ordered_json() : ordered_json::parse(row.default_text, nullptr, false);
  return is_text || value.is_discarded() ? ordered_json(row.default_text) : value;
}

void add_flags(const std::vector<config::OptionInfo>& rows, ordered_json& flags) {
  for (const config::OptionInfo& row : rows) {
    if (row.type == "section") continue;
    ordered_json flag = {
        {"flag", "--" + replace_all(row.path, "_", "-")}, {"type", row.type}, {"default", value_of(row)}};
    if (!row.choices.empty()) flag["choices"] = row.choices;
    flag["help"] = row.help;
    flags.push_back(flag);
  }
}

}  // namespace

std::string overview() {
  std::string text =
      "hone " HONE_VERSION ": trains language models; Hugging Face files in and out\n\nusage: hone COMMAND ...\n\n";
  for (const auto& entry : registries().commands.entries())
    text += fmt::format("  {:<10} {}\n", entry.name, entry.help);
  return text +
         "\n  hone COMMAND --help says what a command takes.\n"
         "  --version, --debug (where an error came from), --plugin FILE (a shared object) go before COMMAND.\n"
         "  --json and --quiet go anywhere.\n";
}

ordered_json overview_json() {
  ordered_json commands = ordered_json::array();
  for (const CommandEntry& entry : registries().commands.entries())
    commands.push_back({{"name", entry.name}, {"help", entry.help}});
  return {{"version", HONE_VERSION}, {"commands", commands}};
}

std::string help_of(const CommandEntry& command) {
  const Usage usage = usage_of(command);
  std::string text = command.help + "\n\nusage: hone " + command.name + " " + usage.synopsis + "\n\n";
  text += config::flags_help(command.options()->describe(), terminal_width());
  text += "\nlike every command:\n" + config::flags_help(common_flags(), terminal_width());
  if (!usage.examples.empty()) text += "\nexamples:\n";
  for (const std::string& example : usage.examples) text += "  " + example + "\n";
  return text;
}

ordered_json help_json(const CommandEntry& command) {
  const Usage usage = usage_of(command);
  ordered_json flags = ordered_json::array();
  add_flags(command.options()->describe(), flags);
  add_flags(common_flags(), flags);
  return {{"name", command.name},
          {"help", command.help},
          {"usage", "hone " + command.name + " " + usage.synopsis},
          {"flags", flags},
          {"examples", usage.examples}};
}

std::string commands_page() {
  const auto block = [](const std::string& text) { return "```\n" + text + "```\n"; };
  std::string page = "# Commands\n\nEvery command has these flags besides its own:\n\n" +
                     block(config::flags_help(common_flags(), 110));
  for (const CommandEntry& entry : registries().commands.entries()) {
    page += "\n## hone " + entry.name + "\n\n" + entry.help + "\n\n";
    page += block("hone " + entry.name + " " + usage_of(entry).synopsis + "\n") + "\n";
    const std::string flags = config::flags_help(entry.options()->describe(), 110);
    page += flags.empty() ? "No flags of its own.\n" : block(flags);
  }
  return page;
}

}  // namespace hone::cli
