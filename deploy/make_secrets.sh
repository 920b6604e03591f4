#!/bin/sh
# Make an authority, the SuperLink's certificate and a key for every SuperNode, in ./secrets:
#
#     sh make_secrets.sh server.example 4
#
# for four SuperNodes that know the SuperLink as server.example. Nothing is overwritten.
set -eu
umask 077
if [ $# -ne 2 ]; then
    echo "usage: sh make_secrets.sh NAME_OF_SUPERLINK NUMBER_OF_SUPERNODES" >&2
    exit 2
fi
mkdir secrets
cd secrets
key() { openssl ecparam -name secp384r1 -genkey -noout -out "$1"; }
key ca.key
openssl req -x509 -new -key ca.key -days 365 -subj "/CN=our federation" -out ca.crt
key server.key
openssl req -new -key server.key -subj "/CN=$1" -out server.csr
echo "subjectAltName=DNS:$1,DNS:superlink,DNS:localhost,IP:127.0.0.1" > names
openssl x509 -req -in server.csr -CA ca.crt -CAkey ca.key -CAcreateserial -days 365 \
    -extfile names -out server.pem
rm server.csr names ca.srl
number=0
while [ "$number" -lt "$2" ]; do
    ssh-keygen -q -t ecdsa -b 384 -N "" -C "node-$number" -f "node-$number"
    number=$((number + 1))
done
echo "secrets/ca.key signs certificates: keep it elsewhere, off the servers."
