// Names -> makers, filled by each plug-in file's register_<file>(Registries&).
#pragma once

#include <functional>
#include <initializer_list>
#include <memory>
#include <string>
#include <type_traits>
#include <vector>

#include "hone/config_read.h"
#if __has_include("hone/stamp.h")
#include "hone/stamp.h"  // which hone these headers are of: written by the build, for plug-ins and the program
#endif

namespace hone {

namespace config {
// Error(usage): two options of one name, which would both take its value; with `chosen_by_type` also one called type,
// which is the key that names the plug-in.
HONE_API void check_options(const std::string& plugin, const std::vector<OptionInfo>& options, bool chosen_by_type);
}  // namespace config

// The makers of one interface. Made names itself by `static constexpr std::string_view kInterface`
// ("objective", "optimizer", ...) in its own header. Filled at start-up by one thread; read-only afterwards.
template <class Made, class... Context>
class Registry final : public config::Catalogue {
 public:
  struct Entry {
    std::string name, help;
    std::function<std::shared_ptr<config::AnyOptions>()> options;
    std::function<std::unique_ptr<Made>(const config::AnyOptions&, Context...)> make;
    bool takes_context = false;
  };

  // Error(usage): a name is taken, or an option's cannot be. T is built as T(const T::Config&, context...), or as
  // T(const T::Config&) where it does not ask for the context.
  template <class T, class Config = typename T::Config>
  void add(std::initializer_list<std::string> names, const std::string& help) {
    for (const std::string& name : names) {
      if (find(name))
        throw Error(ErrorKind::usage, "there is a " + std::string(Made::kInterface) + " \"" + name + "\" already");
      config::check_options(std::string(Made::kInterface) + " \"" + name + "\"",
                            config::OptionsOf<Config>().describe(), Made::kInterface != "command");  // flags: --type
      entries_.push_back({name, help, [] { return std::make_shared<config::OptionsOf<Config>>(); },
                          [](const config::AnyOptions& options, Context... context) -> std::unique_ptr<Made> {
                            const Config& config = static_cast<const config::OptionsOf<Config>&>(options).value;
                            if constexpr (kTakesContext<T, Config>)
                              return std::make_unique<T>(config, context...);
                            else
                              return std::make_unique<T>(config);
                          },
                          kTakesContext<T, Config>});
    }
  }
  template <class T, class Config = typename T::Config>
  void add(const std::string& name, const std::string& help) {
    add<T, Config>({name}, help);
  }

  const Entry* find(const std::string& name) const {
    for (const Entry& entry : entries_)
      if (entry.name == name) return &entry;
    return nullptr;
  }
  const std::vector<Entry>& entries() const { return entries_; }
  std::unique_ptr<Made> make(const std::string& name, const config::AnyOptions& options, Context... context) const {
    const Entry* entry = find(name);
    HONE_ASSERT(entry != nullptr);
    return entry->make(options, context...);
  }
  // As a recipe says; with default options where it gives none.
  std::unique_ptr<Made> make(const config::Choice<Made>& choice, Context... context) const {
    return make(choice.type, choice.options ? *choice.options : *options(choice.type), context...);
  }

  std::vector<std::string> names() const override {
    std::vector<std::string> all;
    for (const Entry& entry : entries_) all.push_back(entry.name);
    return all;
  }
  std::shared_ptr<config::AnyOptions> options(const std::string& name) const override {
    const Entry* entry = find(name);
    return entry ? entry->options() : nullptr;
  }

 private:
  template <class T, class Config>
  static constexpr bool kTakesContext = std::is_constructible_v<T, const Config&, Context...>;
  std::vector<Entry> entries_;
};

class Source;
class Tracker;
class Model;
class Objective;
class Optimizer;
class Schedule;
class Collator;
class Callback;
class Evaluation;
class Reward;
class Command;
struct HeadRequest;
struct CollatorInfo;
struct SourceFile;
struct RunInfo;

// Everything that can be named in a recipe or on the command line. The build writes register_all(), which calls the
// register function of every file in a plug-in folder.
struct Registries {
  Registry<Source, const SourceFile&> sources;
  Registry<Tracker, const RunInfo&> trackers;
  Registry<Model, const HeadRequest&> models;
  Registry<Optimizer> optimizers;
  Registry<Schedule> schedules;
  Registry<Collator, const CollatorInfo&> collators;
  Registry<Objective> objectives;
  Registry<Callback> callbacks;
  Registry<Evaluation> evals;
  Registry<Reward> rewards;
  Registry<Command> commands;
};

// The process's registries, filled on the first call; thread-safe.
HONE_API Registries& registries();

}  // namespace hone
