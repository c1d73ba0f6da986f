// hone docs: the reference of options, generated from the declarations themselves.
#include <iostream>

#include "base/env.h"
#include "config/documents.h"
#include "hone/command.h"
#include "hone/recipe.h"
#include "hone/registry.h"

namespace hone::cli {
namespace {

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
    return {"[recipe|commands|schema]",
            {"hone docs recipe", "hone docs schema > recipe.schema.json", "hone docs --out docs/reference"}, 0, 1};
  }

  int run(const Invocation& call) override {
    if (!flags_.out.empty()) return write_all();
    const std::string page = call.positionals.empty() ? "recipe" : call.positionals[0];
    std::cout << text_of(page);
    return 0;
  }

 private:
  static std::string text_of(const std::string& page) {
    if (page == "recipe") return config::reference_page("Options of a recipe", config::describe(Recipe{}));
    if (page == "commands") return commands_page();
    if (page == "schema") return config::to_json(config::json_schema("hone recipe", config::describe(Recipe{})));
    throw Error(ErrorKind::usage, "docs: got \"" + page + "\", expected recipe, commands or schema");
  }

  static std::string commands_page() {
    std::string page = "# Commands\n";
    for (const auto& entry : registries().commands.entries()) {
      const auto options = entry.options();
      page += "\n## hone " + entry.name + "\n\n" + entry.help + "\n\n```\nhone " + entry.name + " " +
              entry.make(*options)->usage().synopsis + "\n```\n\n" + config::flags_help(options->describe(), 110).insert(0, "```\n") + "```\n";
    }
    return page;
  }

  int write_all() const {
    const Folder folder = Env::process().make_folders(flags_.out, ErrorKind::data);
    for (const auto& [page, name] : {std::pair{"recipe", "recipe.md"}, {"commands", "commands.md"}, {"schema", "recipe.schema.json"}}) {
      folder.replace_file(name, text_of(page));
      std::cout << (folder.path() / name).string() << '\n';
    }
    return 0;
  }

  Config flags_;
};

}  // namespace

void register_docs(Registries& hone) { hone.commands.add<Docs>("docs", "Print the reference of options, commands, or a JSON schema."); }

}  // namespace hone::cli
