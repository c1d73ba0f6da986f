// hone docs: the reference of options, generated from the declarations themselves.
#include <iostream>
#include <nlohmann/json.hpp>

#include "base/env.h"
#include "base/strings.h"
#include "cli/help.h"
#include "cli/output.h"
#include "config/documents.h"
#include "hone/command.h"
#include "hone/recipe.h"
#include "hone/registry.h"

namespace hone::cli {
namespace {

constexpr std::size_t kSame = 20;  // a page of an earlier version begins with the same title

class Docs final : public Command {
 public:
  struct Config {
    std::string out;
    static constexpr auto fields() {
      return std::tuple{field("out", &Config::out, "Write all pages into this folder instead of printing one.")};
    }
  };
  explicit Docs(const Config& config) : flags_(config) {}

  Usage usage() const override {
    return {"[recipe|models|commands|schema]",
            {"hone docs recipe", "hone docs schema > recipe.schema.json", "hone docs --out docs/reference"}, 0, 1};
  }

  int run(const Invocation& call) override {
    if (!flags_.out.empty() && !call.positionals.empty())
      throw Error(ErrorKind::usage,
                  "docs: --out writes all pages; got " + hone::quoted(call.positionals[0]) + " as well");
    if (!flags_.out.empty()) return write_all(call.json);
    const std::string page = call.positionals.empty() ? "recipe" : call.positionals[0];
    call.json ? write_json(json_of(page)) : void(std::cout << text_of(page));
    return 0;
  }

 private:
  static std::string models_page() {
    std::string page =
        "# Options of models\n\nThe keys of their config.json, and of `model` in a recipe for a fresh one.\n";
    for (const auto& entry : registries().models.entries())
      page += "\n#" + config::reference_page("`model: {type: " + entry.name + "}`", entry.options()->describe());
    return page;
  }

  static std::string text_of(const std::string& page) {
    const std::vector<config::OptionInfo> rows = config::describe(Recipe{});
    if (page == "recipe") return config::reference_page("Options of a recipe", rows, OnResume::refuse);
    if (page == "commands") return commands_page();
    if (page == "models") return models_page();
    if (page == "schema") return config::to_json(config::json_schema("hone recipe", rows, OnResume::refuse));
    throw Error(ErrorKind::usage, "docs: got \"" + page + "\", expected recipe, models, commands or schema");
  }

  // One page: {"page", "text"}; the schema is JSON already, and so are commands.
  static nlohmann::ordered_json json_of(const std::string& page) {
    if (page == "schema") return nlohmann::ordered_json::parse(text_of(page));
    if (page != "commands") return {{"page", page}, {"text", text_of(page)}};
    nlohmann::ordered_json commands = nlohmann::ordered_json::array();
    for (const CommandEntry& entry : registries().commands.entries()) commands.push_back(help_json(entry));
    return {{"commands", commands}};
  }

  int write_all(bool json) const {
    std::vector<std::string> files;
    const Folder folder = Env::process().make_folders(flags_.out, ErrorKind::checkpoint);
    for (const auto& [page, name] : {std::pair{"recipe", "recipe.md"},
                                     {"models", "models.md"},
                                     {"commands", "commands.md"},
                                     {"schema", "recipe.schema.json"}}) {
      const std::string text = text_of(page), before = folder.maybe_read_file(name).value_or("");
      if (!before.empty() && before.substr(0, kSame) != text.substr(0, kSame))
        throw Error(ErrorKind::checkpoint,
                    (folder.path() / name).string() + ": is there already, and hone did not write it");
      folder.replace_file(name, text);
      files.push_back((folder.path() / name).string());
    }
    if (json) write_json({{"files", files}});
    else std::cout << join(files, "\n") << '\n';
    return 0;
  }

  Config flags_;
};

}  // namespace

void register_docs(Registries& hone) {
  hone.commands.add<Docs>("docs", "Print the reference of options, commands, or a JSON schema.");
}

}  // namespace hone::cli
