#include <filesystem>
#include <iostream>
#include <memory>
#include <string>

#include "app/commands.h"
#include "base/error.h"
#include "base/str.h"
#include "data/images/digits.h"

namespace echelon::app {

void add_prepare_digits(CLI::App& prepare) {
  struct Arguments {
    std::string source = "data/digits.csv.gz";
    std::string output;
    bool force = false;
    bool allow_foreign_folder = false;
  };
  auto arguments = std::make_shared<Arguments>();
  CLI::App* command = prepare.add_subcommand(
      "digits", "Make MNIST-like images out of scikit-learn's digits, for tests without a dataset");
  command
      ->add_option("--source", arguments->source,
                   "sklearn/datasets/data/digits.csv.gz of scikit-learn; `./make.sh digits` fetches it")
      ->type_name("FILE")
      ->capture_default_str();
  command->add_option("-o,--output", arguments->output, "Folder for train- and test-images-idx3-ubyte")
      ->required();
  command->add_flag("--force", arguments->force, "Replace files of these names that hold something else");
  command->add_flag("--allow-foreign-folder", arguments->allow_foreign_folder,
                    "Allow an output folder of another user, who can then change the files");
  command->callback([arguments, &prepare] {
    // Sources and options in front of the word belong to the other kind of preparing.
    for (const CLI::Option* given : prepare.parse_order()) throw CLI::ExtrasError({given->get_name()});
    std::error_code ignored;
    if (!std::filesystem::exists(arguments->source, ignored)) {
      throw Error(Code::kData, str("there is no '", arguments->source,
                                   "': `./make.sh digits` fetches it, or name sklearn/datasets/data/"
                                   "digits.csv.gz of an installed scikit-learn with --source"));
    }
    const data::DigitsReport report =
        data::prepare_digits({.source = arguments->source,
                              .output = arguments->output,
                              .force = arguments->force,
                              .allow_foreign_folder = arguments->allow_foreign_folder});
    std::cout << arguments->output << "/train-images-idx3-ubyte: " << report.train_images
              << " images of 28 x 28\n"
              << arguments->output << "/test-images-idx3-ubyte: " << report.test_images << " images\n"
              << "recipe: data.kind: idx, data.path: " << arguments->output
              << "/train-images-idx3-ubyte, data.validation.path: " << arguments->output
              << "/test-images-idx3-ubyte\n";
  });
}

}  // namespace echelon::app
