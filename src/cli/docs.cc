// hone docs: the reference of options, generated from the declarations themselves.
#include <filesystem>
#include <fstream>
#include <iostream>

#include "config/documents.h"
#include "hone/command.h"
#include "hone/recipe.h"
#include "hone/registry.h"

namespace hone::cli {
namespace {

namespace fs = std::filesystem;

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
    fs::create_directories(flags_.out);
    for (const auto& [page, name] : {std::pair{"recipe", "recipe.md"}, {"commands", "commands.md"}, {"schema", "recipe.schema.json"}}) {
      const fs::path path = fs::path(flags_.out) / name;
      std::ofstream file(path);
      file << text_of(page);
      if (!file.flush()) throw Error(ErrorKind::data, path.string() + ": cannot be written");
      std::cout << path.string() << '\n';
    }
    return 0;
  }

  Config flags_;
};

}  // namespace

void register_docs(Registries& hone) { hone.commands.add<Docs>("docs", "Print the reference of options, commands, or a JSON schema."); }

}  // namespace hone::cli
