#include <memory>

#include "app/commands.h"
#include "app/engine/engine.h"
#include "app/plugin.h"

namespace echelon::app {

void add_sample(CLI::App& app, int& status) {
  auto request = std::make_shared<SampleRequest>();
  CLI::App* command = app.add_subcommand("sample", "Continue a prompt with the weights of a checkpoint");
  command
      ->add_option("checkpoint", request->checkpoint, "Step folder, or run folder for its newest checkpoint")
      ->required();
  command->add_option("--prompt", request->prompt, "Text to continue")->required();
  command->add_option("--tokens", request->tokens, "Tokens to add")
      ->check(CLI::Range(1, 1 << 20))
      ->capture_default_str();
  command
      ->add_option("--temperature", request->temperature,
                   "0 takes the likeliest token; 1 samples as predicted")
      ->check(CLI::Range(0.0, 100.0))
      ->capture_default_str();
  command->add_option("--seed", request->seed, "Of the sampling")->capture_default_str();
  command->callback(
      [request, &status] { status = engine_function<SampleFunction>("echelon_engine_sample")(*request); });
}

}  // namespace echelon::app
