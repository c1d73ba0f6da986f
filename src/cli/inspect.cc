// hone inspect: what a model, checkpoint, run or data set is made of, before anything is trained on it.
#include <algorithm>
#include <iostream>
#include <nlohmann/json.hpp>

#include "base/strings.h"
#include "cli/inspect.h"
#include "cli/output.h"
#include "cli/read_data.h"
#include "hone/command.h"
#include "hone/registry.h"

namespace hone::cli {
namespace {

class Inspect final : public Command {
 public:
  struct Config {
    bool full = false, show = true;
    std::int64_t records = 3;
    std::vector<std::string> set;
    bool allow_unknown = false;
    DataFlags data;
    static constexpr auto fields() {
      using C = Config;
      return std::tuple{
          field("full", &C::full,
                "checkpoint, run: compare every byte with its hash, not only names and sizes; data: print long records "
                "whole."),
          field(
              "show", &C::show,
              "data: print the records' tokens, apart by |, those that carry loss in [brackets]; behind -> what a cut "
              "moved. With --json their ids, which of them carry loss, and that text."),
          field("records", &C::records, "data: how many records to list, in the order of their rows; -1 = all.",
                at_least(-1)),
          field("set", &C::set, "recipe: another recipe file on top of the first one; may be given several times."),
          field("allow_unknown", &C::allow_unknown,
                "recipe: keys of files that no option has are passed over with a warning."),
          field("data", &C::data, "data: how files are read; a recipe says it itself.")};
    }
  };
  explicit Inspect(const Config& config) : flags_(config) {}

  Usage usage() const override {
    return {"model|adapter|checkpoint|run|data|recipe|diff PATH... [--a.b.c=value ...]",
            {"hone inspect model my-model", "hone inspect model recipe.yaml", "hone inspect data recipe.yaml",
             "hone inspect data train.jsonl --data.tokenizer my-model --data.max-length 512",
             "hone inspect checkpoint runs/a/checkpoints/step-00000100 --full", "hone inspect diff runs/a runs/b",
             "hone inspect recipe recipe.yaml --set more.yaml --trainer.steps=10", "hone inspect recipe runs/a runs/b"},
            2,
            100,
            true,
            config::Values<Recipe>::names(),
            recipe_switches()};
  }

  [[noreturn]] static void refuse(const std::string& name) {
    const std::vector<std::string> known = config::Values<DataFlags>::names();
    const bool of_data = std::find(known.begin(), known.end(), replace_all(name, "-", "_")) != known.end();
    throw Error(ErrorKind::usage, "--" + name + ": no such flag")
        .hint(of_data ? "did you mean --data." + name + "?"
                      : "options of a recipe are for inspect recipe; a recipe.yaml of inspect data says its own");
  }

  // Each flag is for some kinds alone.
  static void check_flags(const std::string& kind, const std::vector<std::string>& paths, const Invocation& call) {
    const auto kinds_of = [](const std::string& flag) -> std::vector<std::string> {
      if (flag == "full") return {"checkpoint", "run", "data"};
      if (flag == "set" || flag == "allow_unknown") return {"recipe"};
      if (flag == "show" || flag == "records") return {"data"};
      return flag.starts_with("data.") ? std::vector<std::string>{"data", "recipe"} : std::vector<std::string>();
    };
    for (const auto& [flag, value] : call.flags) {
      const std::vector<std::string> kinds = kinds_of(flag);
      if (kinds.empty()) continue;  // every command has it
      if (std::find(kinds.begin(), kinds.end(), kind) == kinds.end())
        throw Error(ErrorKind::usage, "--" + flag + ": only with hone inspect " + join(kinds, " or "))
            .hint("hone plan and inspect recipe take options of a recipe");
      if (kind == "data" && flag.starts_with("data.") && paths.size() == 1 && is_recipe(paths[0]))
        throw Error(ErrorKind::usage, "--" + flag + ": only with data files; a recipe says it itself")
            .hint("hone plan and inspect recipe take options of a recipe");
    }
  }

  int run(const Invocation& call) override {
    const std::string& kind = call.positionals[0];
    const std::vector<std::string> paths(call.positionals.begin() + 1, call.positionals.end());
    check_flags(kind, paths, call);
    if (kind == "recipe") return show_recipe(paths, call);
    if (!call.overrides.empty()) refuse(call.overrides[0].first);
    if (kind == "data") return show_data(paths, call.json);
    const auto report = report_on(kind, paths);
    print(report, call.json);
    return is_damaged(report) ? static_cast<int>(ErrorKind::checkpoint) : 0;
  }

 private:
  nlohmann::ordered_json report_on(const std::string& kind, const std::vector<std::string>& paths) const {
    const std::vector<std::string> kinds = {"model", "adapter", "checkpoint", "run", "data", "recipe", "diff"};
    if (std::find(kinds.begin(), kinds.end(), kind) == kinds.end())
      throw Error(ErrorKind::usage, "inspect: got " + hone::quoted(kind) + ", expected one of " + join(kinds, ", "));
    if (paths.size() != (kind == "diff" ? 2u : 1u))
      throw Error(ErrorKind::usage, "inspect " + kind + ": got " + std::to_string(paths.size()) + " paths, expected " +
                                        (kind == "diff" ? "2" : "1"));
    if (kind == "model") return inspect_model(paths[0]);
    if (kind == "adapter") return inspect_adapter(paths[0]);
    if (kind == "checkpoint") return inspect_checkpoint(paths[0], flags_.full);
    if (kind == "run") return inspect_run(paths[0], flags_.full);
    return inspect_diff(paths[0], paths[1]);
  }

  static void print(const nlohmann::ordered_json& report, bool json) {
    json ? write_json(report) : void(std::cout << plain_text(report));
  }

  static bool is_damaged(const nlohmann::ordered_json& report) {
    if (report.value("whole", nlohmann::ordered_json()) == false) return true;
    const nlohmann::ordered_json checkpoints = report.value("checkpoints", nlohmann::ordered_json::array());
    return std::any_of(checkpoints.begin(), checkpoints.end(), [](const auto& row) { return row["whole"] == false; });
  }

  int show_recipe(const std::vector<std::string>& paths, const Invocation& given) const {
    Invocation call = given;
    for (const auto& [flag, value] : given.flags)  // of a recipe --data.max_length is an option like the others
      if (flag.starts_with("data.")) call.overrides.emplace_back(flag, value);
    const InspectedRecipe found =
        inspect_recipe(paths, call, {flags_.set, flags_.allow_unknown ? UnknownKeys::pass_over : UnknownKeys::refuse});
    call.json ? write_json(found.report) : void(std::cout << found.text);
    return 0;
  }

  int show_data(const std::vector<std::string>& paths, bool json) const {
    const DataToInspect found = read_data(paths, flags_.data);
    const auto report = inspect_data(found, flags_.records, flags_.show && json);
    print(report, json);
    if (flags_.show && !json) std::cout << marked_records(*found.data, *found.tokenizer, flags_.records, flags_.full);
    return 0;
  }

  Config flags_;
};

}  // namespace

void register_inspect(Registries& hone) {
  hone.commands.add<Inspect>("inspect", "Show what a model, adapter, checkpoint, run, data set or recipe is made of.");
}

}  // namespace hone::cli
