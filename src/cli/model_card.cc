// The card is YAML, then Markdown: a summary, hyperparameters and results as tables, and how to load it.
#include "cli/model_card.h"

#include <fmt/format.h>

#include <algorithm>
#include <filesystem>
#include <map>
#include <tuple>

#include "base/strings.h"

namespace hone::cli {
namespace {

using config::Node;

// One number that an evaluation found.
struct Result {
  std::string split, set, metric;
  double value = 0;
};

std::vector<std::string> evaluated_sets(const CardFacts& facts) {
  std::vector<std::string> names;
  if (!facts.recipe) return names;
  const EvalSection& eval = facts.recipe->data.eval;
  if (eval.held_out.value_or(0) > 0) names.push_back("held_out");
  for (const auto& [name, files] : eval.files) names.push_back(name);
  return names;
}

std::vector<std::string> tested_sets(const nlohmann::json& line) {
  std::vector<std::string> names;
  const nlohmann::json sets = line.value("sets", nlohmann::json::object());
  for (const auto& [name, files] : sets.items()) names.push_back(name);
  return names;
}

// Of a key such as eval_loss, where there is one set, or test_books_loss.
Result result_of(const std::string& key, double value, const std::vector<std::string>& sets) {
  const std::size_t line = key.find('_');
  Result result{key.substr(0, line), "", key.substr(line + 1), value};
  result.set = sets.size() == 1 ? sets[0] : result.split == "eval" ? "evaluation" : "test";
  for (const std::string& set : sets)
    if (result.metric.starts_with(set + "_") && (sets.size() > 1 || result.metric.size() > set.size() + 1))
      result.set = set, result.metric = result.metric.substr(set.size() + 1);
  return result;
}

// How much was looked at is no result.
bool is_count(const std::string& key) {
  for (const char* ending : {"_seconds", "_tokens", "_prompts"})
    if (key.ends_with(ending)) return true;
  return false;
}

// Of an evaluation that saw a part of its set.
bool is_of_part(const Result& result, const CardFacts& facts) {
  if (result.split != "eval" || !facts.recipe) return false;
  const TrainerSection& trainer = facts.recipe->trainer;
  const auto own = trainer.eval_sets.find(result.set);
  return trainer.max_eval_batches || (own != trainer.eval_sets.end() && own->second.max_batches);
}

// Of this checkpoint alone: what an evaluation found before it says nothing of these weights. The last of each.
std::vector<Result> results_of(const CardFacts& facts) {
  std::map<std::tuple<std::string, std::string, std::string>, Result> last;
  const auto take = [&](const nlohmann::json& line, const std::string& split, const std::vector<std::string>& sets) {
    for (const auto& [key, value] : line.items()) {
      if (!key.starts_with(split) || !value.is_number() || is_count(key)) continue;
      const Result found = result_of(key, value.get<double>(), sets);
      if (!is_of_part(found, facts)) last[{found.split, found.set, found.metric}] = found;
    }
  };
  const std::vector<std::string> evaluated = evaluated_sets(facts);
  for (const nlohmann::json& line : facts.log)
    if (line.value("step", std::int64_t{-1}) == facts.step) take(line, "eval_", evaluated);
  for (const nlohmann::json& line : facts.tests) take(line, "test_", tested_sets(line));
  std::vector<Result> results;
  for (const auto& [key, result] : last) results.push_back(result);
  return results;
}

Node text(const std::string& value) { return Node::scalar(value, /*quoted=*/true); }

Node texts(const std::vector<std::string>& values) {
  std::vector<Node> nodes;
  for (const std::string& value : values) nodes.push_back(text(value));
  return Node::list(std::move(nodes));
}

std::vector<std::string> tags_of(const CardFacts& facts, const CardFlags& flags) {
  std::vector<std::string> tags{"hone"};
  const auto add = [&](const std::string& tag) {
    if (!tag.empty() && std::find(tags.begin(), tags.end(), tag) == tags.end()) tags.push_back(tag);
  };
  if (facts.recipe) add(facts.recipe->objective.type);
  add(facts.model_type);
  if (facts.adapter) add("lora");
  for (const std::string& tag : flags.tag) add(tag);
  return tags;
}

Node model_index(const CardFacts& facts, const std::vector<Result>& results) {
  std::map<std::pair<std::string, std::string>, std::vector<Node>> metrics;  // by split and set
  for (const Result& result : results)
    metrics[{result.split, result.set}].push_back(
        Node::map({{"type", text(result.metric)}, {"value", config::Values<double>::write(result.value)}}));
  std::vector<Node> rows;
  for (auto& [place, values] : metrics)
    rows.push_back(Node::map({{"task", Node::map({{"type", text(facts.task)}})},
                              {"dataset", Node::map({{"name", text(place.second)},
                                                     {"type", text(place.second)},
                                                     {"split", text(place.first == "eval" ? "validation" : "test")}})},
                              {"metrics", Node::list(std::move(values))}}));
  return Node::list({Node::map({{"name", text(facts.name)}, {"results", Node::list(std::move(rows))}})});
}

std::string front_matter(const CardFacts& facts, const CardFlags& flags, const std::vector<Result>& results) {
  Node card = Node::map();
  card.at_or_add("library_name") = text(facts.adapter ? "peft" : "transformers");
  card.at_or_add("pipeline_tag") = text(facts.task);
  if (!flags.license.empty()) card.at_or_add("license") = text(flags.license);
  if (!flags.language.empty()) card.at_or_add("language") = texts(flags.language);
  if (const std::string base = base_on_hub(facts, flags); !base.empty()) {
    card.at_or_add("base_model") = text(base);
    card.at_or_add("base_model_relation") = text(facts.adapter ? "adapter" : "finetune");
  }
  if (!flags.dataset.empty()) card.at_or_add("datasets") = texts(flags.dataset);
  card.at_or_add("tags") = texts(tags_of(facts, flags));
  if (!results.empty()) card.at_or_add("model-index") = model_index(facts, results);
  return "---\n" + config::to_yaml(card) + "---\n";
}

using Rows = std::vector<std::pair<std::string, std::string>>;

std::string table(const std::string& left, const std::string& right, const Rows& rows) {
  const auto cell = [](const std::string& value) {
    return replace_all(replace_all(escape_for_terminal(value), "|", "\\|"), "\n", " ");
  };
  std::string out = fmt::format("| {} | {} |\n|---|---|\n", left, right);
  for (const auto& [name, value] : rows)
    if (!value.empty()) out += fmt::format("| {} | {} |\n", name, cell(value));
  return out;
}

// An option of a choice, as its recipe has it; "": it has none.
std::string option_of(const Node& written, std::initializer_list<const char*> path) {
  const Node* at = &written;
  for (const char* part : path)
    if (!(at = at->find(part))) return "";
  return at->is_null() ? "" : config::detail::inline_text(*at);
}

// The plain options of a choice, without its type.
Rows option_rows(const Node& written, const char* section) {
  Rows rows;
  const Node* choice = written.find(section);
  if (choice && choice->is_map())
    for (const auto& [key, value] : choice->entries())
      if (key != "type" && value.kind() == Node::Kind::scalar) rows.emplace_back(key, value.text());
  return rows;
}

Rows summary_rows(const CardFacts& facts, const CardFlags& flags) {
  const std::string base = base_on_hub(facts, flags);
  const std::string kind = facts.adapter ? "LoRA adapter" : facts.merged ? "model with its adapter merged" : "model";
  Rows rows{{"Model", facts.name + " (" + kind + ")"},
            {"Architecture", facts.architecture},
            {"Task", facts.task},
            {"Parameters", human_count(static_cast<double>(facts.parameters))},
            {"Weights", facts.dtype},
            {"Base model", base}};
  if (facts.recipe) {
    rows.emplace_back("Objective", facts.recipe->objective.type);
    rows.emplace_back("Computed in", config::Values<Precision>::write(facts.recipe->trainer.precision).text());
    rows.emplace_back("Processes", std::to_string(facts.ranks));
    rows.emplace_back("Step",
                      facts.steps > 0 ? fmt::format("{} of {}", facts.step, facts.steps) : std::to_string(facts.step));
    rows.emplace_back("Tokens", human_count(static_cast<double>(facts.tokens)));
  }
  rows.emplace_back("hone", HONE_VERSION);
  return rows;
}

Rows hyperparameter_rows(const Recipe& recipe) {
  const Node written = write_recipe(recipe);
  const TrainerSection& trainer = recipe.trainer;
  const auto number = [](const auto& value) { return value ? fmt::format("{}", *value) : std::string(); };
  const std::string ratio = option_of(written, {"optimizer", "schedule", "warmup_ratio"});
  Rows rows{{"Learning rate", option_of(written, {"optimizer", "learning_rate"})},
            {"Optimizer", recipe.optimizer.type},
            {"Scheduler", option_of(written, {"optimizer", "schedule", "type"})},
            {ratio.empty() ? "Warmup steps" : "Warmup ratio",
             ratio.empty() ? option_of(written, {"optimizer", "schedule", "warmup_steps"}) : ratio},
            {"Weight decay", option_of(written, {"optimizer", "weight_decay"})},
            {"Batch size", fmt::format("{} rows ({} x {})", trainer.rows_per_step(), trainer.batch_size.rows,
                                       trainer.accumulate)},
            {"Max length", std::to_string(recipe.data.max_length)},
            {"Max gradient norm", fmt::format("{}", trainer.max_grad_norm)},
            {"Steps", number(trainer.steps)},
            {"Epochs", number(trainer.epochs)},
            {"Tokens", number(trainer.tokens)},
            {"Time limit", trainer.time_limit},
            {"Gradient checkpointing", trainer.checkpoint_blocks ? "on" : "off"},
            {"Seed", std::to_string(recipe.run.seed)}};
  if (!recipe.adapter.type.empty()) {
    rows.emplace_back("LoRA rank", std::to_string(recipe.adapter.rank));
    rows.emplace_back("LoRA alpha", number(recipe.adapter.alpha));
    rows.emplace_back("LoRA dropout", fmt::format("{}", recipe.adapter.dropout));
  }
  for (const auto& [key, value] : option_rows(written, "objective")) rows.emplace_back("objective." + key, value);
  return rows;
}

std::string load_section(const CardFacts& facts, const CardFlags& flags) {
  const std::string chooser = facts.task == "text-classification"    ? "AutoModelForSequenceClassification"
                              : facts.task == "token-classification" ? "AutoModelForTokenClassification"
                              : facts.task == "question-answering"   ? "AutoModelForQuestionAnswering"
                              : facts.task == "text-generation"      ? "AutoModelForCausalLM"
                              : facts.task == "fill-mask"            ? "AutoModelForMaskedLM"
                                                                     : "AutoModel";
  std::string code = "```python\n";
  if (facts.adapter) {
    const std::string base = base_on_hub(facts, flags);
    code += "from peft import PeftModel\n";
    code += fmt::format("from transformers import AutoTokenizer, {}\n\n", chooser);
    code += fmt::format("base = {}.from_pretrained(\"{}\")\n", chooser, base.empty() ? "BASE_MODEL" : base);
    code += fmt::format("model = PeftModel.from_pretrained(base, \"{}\")\n", facts.name);
  } else {
    code += fmt::format("from transformers import AutoTokenizer, {}\n\n", chooser);
    code += fmt::format("model = {}.from_pretrained(\"{}\", dtype=\"auto\")\n", chooser, facts.name);
  }
  code += fmt::format("tokenizer = AutoTokenizer.from_pretrained(\"{}\")\n```\n", facts.name);
  if (facts.chat) code += "\nIts chat template is in the tokenizer: `tokenizer.apply_chat_template(messages)`.\n";
  return code;
}

std::string results_section(const std::vector<Result>& results) {
  std::string out = "| set | split | metric | value |\n|---|---|---|---|\n";
  for (const Result& result : results)
    out += fmt::format("| {} | {} | {} | {:.6g} |\n", result.set, result.split == "eval" ? "validation" : "test",
                       result.metric, result.value);
  return out;
}

}  // namespace

std::string base_on_hub(const CardFacts& facts, const CardFlags& flags) {
  if (!flags.base_model.empty()) return flags.base_model;
  const std::string named = facts.adapter ? facts.base : facts.recipe ? facts.recipe->model.path : "";
  // A folder of this machine means nothing to others.
  std::error_code ignored;
  const bool is_name =
      split(named, '/').size() == 2 && named.find_first_of("/.~") != 0 && named.find("//") == named.npos;
  return is_name && !std::filesystem::exists(named, ignored) ? named : "";
}

std::string model_card(const CardFacts& facts, const CardFlags& flags) {
  std::vector<Result> results = results_of(facts);
  const bool of_others = !facts.changed.empty() && !results.empty();
  if (of_others) results.clear();
  std::string card = front_matter(facts, flags, results);
  card += fmt::format("\n# {}\n\n", facts.name);
  if (!facts.recipe) card += "What it was trained on, and how, is not known: its folder is no run's checkpoint.\n\n";
  card += "## Run summary\n\n" + table("Key", "Value", summary_rows(facts, flags));
  card += "\n## Load it\n\n" + load_section(facts, flags);
  if (facts.recipe) card += "\n## Hyperparameters\n\n" + table("Option", "Value", hyperparameter_rows(*facts.recipe));
  if (!results.empty()) card += "\n## Evaluation\n\n" + results_section(results);
  if (of_others)
    card += "\n## Evaluation\n\nThe run's results are of its weights before they were " + facts.changed +
            ", and are left out; `hone eval` measures these.\n";
  return card + (facts.recipe ? "\nTrained and exported with hone " HONE_VERSION ".\n"
                              : "\nExported with hone " HONE_VERSION ".\n");
}

}  // namespace hone::cli
