"""An app in scikit-learn for FedAvg, as such apps are: to be converted in a test."""
